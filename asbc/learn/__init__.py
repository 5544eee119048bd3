"""Learning on a graph: votes, propagation, clusters, label issues, duplicates, and a probe for training.

`source` opens the rows of a graph, in memory or on disk, for all others: a variable `rows` holds them. `labels` turns
labels into class codes and applies the corrections of a reviewer.

- Classification: `predict` has the vote and label propagation, `classifiers` the estimators.
- Wrong labels: `experts` estimates the probability of each class, and `issues` ranks the labels.
- Clusters: `clusters` finds them, `names` names them.
- Description: `duplicates`, and `describe` for everything together.

:class:`GraphProbe` (`probe`) needs Lightning, so it is imported on first use. The other public names are in `asbc`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"probe": ["GraphProbe"]})
