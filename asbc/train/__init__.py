"""Training of encoders (``asbc-pretrain``): six self-supervised methods with lightly's losses and transforms."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
