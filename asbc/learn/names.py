"""Names of clusters: the words that set them apart, or their majority label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.learn.labels import encode_partial

COMMON_SHARE = 0.5  # words in more than this share of the clusters name none of them, if there are enough clusters
FEW_CLUSTERS = 8


def name_clusters(
    clusters: ArrayLike,
    *,
    texts: Sequence[str] | None = None,
    labels: ArrayLike | None = None,
    n_words: int = 3,
    stop_words: str | list[str] | None = "english",
) -> list[str]:
    """Name clusters by the words that set them apart, or by their majority label.

    The words come from class-based TF-IDF: the texts of a cluster are one document, and a word counts more if other
    clusters use it less.

    Parameters
    ----------
    clusters : (n,) array of int
        Cluster of each node, from 0 to c - 1; -1 belongs to none.
    texts : sequence of n str, optional
    labels : (n,) array, optional
        Labels of the nodes; -1, None, NaN or "" where unknown. The name is the majority label with its share; if no
        label has half of the nodes, the most frequent ones, at most `n_words`, with the share of all of them.
    n_words : int, default=3
        Words in a name.
    stop_words : "english", list of str or None, default="english"
        Words to ignore; see scikit-learn's CountVectorizer.

    Returns
    -------
    list of c str

    See Also
    --------
    GraphClusters : computes clusters.

    Examples
    --------
    >>> import asbc
    >>> texts = ["my card is lost", "lost my bank card", "book a flight", "a cheap flight to Rome"]
    >>> asbc.name_clusters([0, 0, 1, 1], texts=texts, n_words=2)
    ['card, lost', 'flight, book']
    >>> asbc.name_clusters([0, 0, 1, 1], labels=["bank", "bank", "travel", "bank"])
    ['bank (100%)', 'bank (50%)']
    """
    found = np.asarray(clusters)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise ValueError(f"clusters must be whole numbers of shape (n,); got {found.dtype} of shape {found.shape}.")
    if (texts is None) == (labels is None):
        raise ValueError("give either texts or labels to name the clusters by.")
    if texts is not None:
        if len(texts) != len(found):
            raise ValueError(f"texts must have one entry per node, {len(found)}; got {len(texts)}.")
        return _from_words(found, list(texts), n_words, stop_words)
    return _from_labels(found, labels, n_words)


def _from_words(clusters: NDArray, texts: list[str], n_words: int, stop_words: str | list[str] | None) -> list[str]:
    from sklearn.feature_extraction.text import CountVectorizer  # late, because it imports rich

    count = int(clusters.max()) + 1
    documents = [" ".join(str(texts[i]) for i in np.flatnonzero(clusters == c).tolist()) for c in range(count)]
    common = COMMON_SHARE if count >= FEW_CLUSTERS else 1.0
    vectorizer = CountVectorizer(stop_words=stop_words, max_df=common, token_pattern=r"(?u)\b[^\W\d]\w+\b")
    try:
        counts = vectorizer.fit_transform(documents).toarray().astype(float)
    except ValueError:  # no words but stop words
        return [f"cluster {c}" for c in range(count)]
    words = vectorizer.get_feature_names_out()
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    score = share * np.log1p(counts.sum() / count / counts.sum(axis=0))
    names = []
    for c in range(count):
        best = [i for i in np.argsort(-score[c], kind="stable")[:n_words] if counts[c, i] > 0]
        names.append(", ".join(words[i] for i in best) or f"cluster {c}")
    return names


def _from_labels(clusters: NDArray, labels: Any, most: int) -> list[str]:
    codes, classes = encode_partial(labels, len(clusters))
    names = []
    for c in range(int(clusters.max()) + 1):
        known = codes[(clusters == c) & (codes >= 0)]
        if not len(known):
            names.append(f"cluster {c}")
            continue
        share = np.bincount(known) / len(known)
        order = np.argsort(-share, kind="stable")[:most]
        order = order[share[order] > 0]
        taken = order[: int(np.searchsorted(np.cumsum(share[order]), 0.5 - 1e-9)) + 1]
        names.append(f"{', '.join(str(classes[i]) for i in taken)} ({share[taken].sum():.0%})")
    return names
