"""How good a graph is: methods, tasks, and whether one method beats another.

A task is called with a sample and a method (`sample`), and yields scores of metrics (`tasks`). Tasks that need labels
are in `tasks` and `noise`, those without labels in `geometry`. `comparison` compares methods by their scores. `peers`
has the weights of other libraries.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
