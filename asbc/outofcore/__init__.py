"""How a graph is built on disk, block by block, from more vectors than fit into memory."""
