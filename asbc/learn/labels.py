"""What the nodes are called: any labels to class numbers, and which nodes a semi-supervised task may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_labels(
    labels: Sequence[Any] | NDArray[Any] | None, n: int | None = None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Number the classes from 0, whatever they are called.

    Parameters
    ----------
    labels : (n,) sequence of integers (negative and sparse ones too), strings or booleans
    n : int, optional
        How many nodes there are, to check against.

    Returns
    -------
    codes : (n,) int64
        Class number of each node.
    classes : (c,) array
        The label that each class number stands for, sorted.
    """
    if labels is None:
        raise ValueError("labels is None; this evaluation needs one label a node")
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"labels must be one label a node, shape (n,); got shape {array.shape}")
    if n is not None and len(array) != n:
        raise ValueError(f"labels must have one entry a node: {n} wanted, got {len(array)}")
    if array.dtype.kind == "O":
        odd = {type(v).__name__ for v in array} - {"str", "str_"}
        if odd:
            raise ValueError(f"labels of dtype object must all be strings; got also {', '.join(sorted(odd))}")
        array = array.astype(str)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.floor(array)).any():
            raise ValueError("labels of a float dtype must be whole and finite; got fractions, NaN or infinities")
        array = array.astype(np.int64)
    if array.dtype.kind not in "biuUS":
        raise ValueError(f"labels must be integers, strings or booleans; got dtype {array.dtype}")
    classes, codes = np.unique(array, return_inverse=True)
    return codes.reshape(-1).astype(np.int64), classes


def reveal(codes: NDArray[np.int64], per_class: int, seed: int | Sequence[int]) -> NDArray[np.bool_]:
    """Choose the nodes whose label is shown: `per_class` of every class.

    The choices of one seed are nested: the nodes shown at 2 a class are among those shown at 5.

    Parameters
    ----------
    codes : (n,) class numbers from :func:`encode_labels`
    per_class : int
    seed : int or sequence of int

    Returns
    -------
    shown : (n,) bool
    """
    if per_class < 1:
        raise ValueError(f"per_class must be at least 1; got {per_class}")
    counts = np.bincount(codes)
    if per_class > counts.min():
        raise ValueError(
            f"per_class={per_class} labels a class asked for, but class number {int(counts.argmin())} "
            f"has only {int(counts.min())} sample(s)"
        )
    if (counts <= per_class).all():
        raise ValueError(f"per_class={per_class} would show every label; none would be left to predict")
    order = np.random.default_rng(seed).permutation(len(codes))
    grouped = order[np.argsort(codes[order], kind="stable")]
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    shown = np.zeros(len(codes), dtype=bool)
    shown[grouped[rank < per_class]] = True
    return shown
