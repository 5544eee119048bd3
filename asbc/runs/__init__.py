"""Experiments: from a config to rows of results on disk. Interrupted runs resume.

`record` defines what describes an experiment, and `experiments` has the records of asbc's own. `run` computes the rows,
`results` writes and reads the folder of a run and finds the numbers to show first. `command` is ``asbc`` and what it
prints. `wandb` is the logger for W&B, its dashboards, and ``asbc-upload``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
