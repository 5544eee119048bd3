"""Neighbourhood graphs on embeddings, with a Gaussian bandwidth chosen for every node from the local geometry."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
