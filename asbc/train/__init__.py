"""Training of encoders (``asbc-pretrain``): six self-supervised methods with lightly's losses and transforms.

`methods` has the methods and their base classes, `data` the augmented batches, `run` one training run, `checkpoint` its
folder, which :mod:`asbc.embeddings` reads, and `command` the command. The settings are in ``conf/`` of this package.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
