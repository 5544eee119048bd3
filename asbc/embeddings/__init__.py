"""Vectors from files, bundled samples, published arrays, and encoders of images."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
