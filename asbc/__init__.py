"""Neighbourhood graphs on embeddings, with a bandwidth chosen for every node."""
