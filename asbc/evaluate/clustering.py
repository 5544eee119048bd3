"""Spectral clustering: do the graph's own pieces agree with the classes?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from asbc.learn.labels import encode_partial


@dataclass(frozen=True)
class ClusterAgreement:
    """How well clusters agree with classes; :func:`cluster` gives it.

    Attributes
    ----------
    nmi : float
        Normalised mutual information: 0 where clusters tell nothing of the classes, 1 where they are the classes.
    ari : float
        Adjusted Rand index: about 0 for clusters drawn by chance, 1 where they are the classes.
    """

    nmi: float
    ari: float


def cluster(graph: Any, labels: ArrayLike, *, seed: int = 0) -> ClusterAgreement:
    """Cut the graph into as many clusters as there are classes, labels unseen, and compare.

    Parameters
    ----------
    graph : (n, n) sparse array, entries 0 or more
        A graph that is not symmetric is replaced by the mean of itself and its transpose.
    labels : (n,) array of labels of any kind
        At least two classes. A node without a label (-1, NaN, None or "") is clustered and not compared.
    seed : int, default=0
        Of scikit-learn's spectral clustering.

    Returns
    -------
    ClusterAgreement

    See Also
    --------
    asbc.evaluate.Clustering : the task that does this for the graph of every method.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from asbc.evaluate.clustering import cluster
    >>> pieces = sparse.block_diag([np.ones((4, 4)), np.ones((4, 4))])
    >>> cluster(pieces, ["a"] * 4 + ["b"] * 4)
    ClusterAgreement(nmi=1.0, ari=1.0)
    """
    codes, classes = encode_partial(labels, graph.shape[0])  # type: ignore[arg-type]
    if len(classes) < 2:
        raise ValueError(f"labels must have at least 2 classes to be clustered into; got {len(classes)}")
    W = sp.csr_matrix(graph)
    W = sp.csr_matrix((W + W.T) * 0.5)
    # scikit-learn 1.6 takes 32-bit indices only.
    W.indices, W.indptr = W.indices.astype(np.int32), W.indptr.astype(np.int32)
    model = SpectralClustering(
        n_clusters=len(classes), affinity="precomputed", assign_labels="cluster_qr", random_state=seed
    )
    with warnings.catch_warnings():
        # Several components are legal here; graph_health counts them.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        found = model.fit_predict(W)
    codes, found = codes[codes >= 0], found[codes >= 0]
    return ClusterAgreement(float(normalized_mutual_info_score(codes, found)), float(adjusted_rand_score(codes, found)))
