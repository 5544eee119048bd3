"""What a graph is worth: methods, tasks, and whether one method beats another."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
