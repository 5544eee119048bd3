"""Experiments: from a config to rows of results on disk. Interrupted runs resume."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
