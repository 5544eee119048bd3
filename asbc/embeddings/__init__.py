"""Vectors from files, bundled samples, published arrays, and encoders of images.

`store` has :class:`Embeddings`, which the ``load()`` of every source returns, samples of its rows, and the cache.
Sources are :class:`Files` (`files`), bundled samples, published vectors and :class:`EncoderSource` (`source`), and
:class:`HuggingFace` (`hub`). To embed images, `encoders` reads the weights and `datamodule` serves the images and runs
the encoder. `download` fetches missing files, and `command` is ``asbc-embed``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
