"""Vectors from files, bundled samples, published arrays, and encoders of images.

The ``load()`` of every source returns :class:`Embeddings`: :class:`Files` (`files`), the samples (`bundled`),
:class:`EncoderSource` (`source`) and :class:`HuggingFace` (`hub`). To embed images, `encoders` reads the weights,
`datamodule` serves the images and runs the encoder, and `store` caches the result. `download` fetches missing files,
`sampling` draws rows per class, and `command` is ``asbc-embed``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
