"""Labels of any kind as class codes, and the choice of labelled nodes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.validation import class_numbers, plain_array, row_index, whole_number


def encode_labels(
    labels: Sequence[Any] | NDArray[Any] | None, n: int | None = None, *, name: str = "labels"
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Encode labels as class codes from 0; return the codes (n,) and the sorted classes (c,).

    Labels are integers, strings or booleans, one per node; `n` is their required number, `name` the argument's name in
    error messages.

    Examples
    --------
    >>> from asbc.learn.labels import encode_labels
    >>> encode_labels(["dog", "cat", "dog"])
    (array([1, 0, 1]), array(['cat', 'dog'], dtype='<U3'))
    """
    if labels is None:
        raise ValueError(f"{name} is None; pass one label per node.")
    array = np.asarray(plain_array(labels, name))
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} must be one label per node, shape (n,); got shape {array.shape}.")
    if n is not None and len(array) != n:
        raise ValueError(f"{name} must have one entry per node: expected {n}, got {len(array)}.")
    if array.dtype.kind == "O":
        odd = {type(v).__name__ for v in array} - {"str", "str_"}
        if odd:
            raise ValueError(f"{name} of dtype object must all be strings; got also {', '.join(sorted(odd))}.")
        array = array.astype(str)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.floor(array)).any():
            raise ValueError(f"{name} of a float dtype must be whole and finite; got fractions, NaN or infinities.")
        array = array.astype(np.int64)
    if array.dtype.kind not in "biuUS":
        raise ValueError(f"{name} must be integers, strings or booleans; got dtype {array.dtype}.")
    classes, codes = np.unique(array, return_inverse=True)
    return codes.reshape(-1).astype(np.int64), classes


def reveal(codes: NDArray[np.int64], per_class: int, seed: int | Sequence[int]) -> NDArray[np.bool_]:
    """Choose `per_class` labelled nodes of every class, or all of a class that has fewer; return flags (n,).

    `codes` are class codes; -1 is never chosen. The choices of one seed are nested: those with 2 labels per class are
    among those with 5.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.labels import reveal
    >>> codes = np.array([0, 0, 0, 1, 1, 1])
    >>> codes[reveal(codes, per_class=2, seed=0)]
    array([0, 0, 1, 1])
    """
    per_class = whole_number(per_class, "per_class", 1)
    codes = class_numbers(codes, None, least=-1)
    if not (codes >= 0).any():
        raise ValueError("codes must have at least one labelled node; got none")
    for number in seed if isinstance(seed, Sequence) else [seed]:
        whole_number(number, "seed", 0)
    counts = np.bincount(codes[codes >= 0])
    if (counts <= per_class).all():
        raise ValueError(f"per_class={per_class} would show every label; none would be left to predict")
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[codes[order] >= 0]
    grouped = order[np.argsort(codes[order], kind="stable")]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    shown = np.zeros(len(codes), dtype=bool)
    shown[grouped[rank < per_class]] = True
    return shown


def encode_partial(
    labels: Sequence[Any] | NDArray[Any] | None, n: int | None = None, *, name: str = "labels"
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Encode labels as class codes from 0, with -1 for unlabelled nodes; return codes (n,) and classes (c,).

    A node is unlabelled if its label is -1 (a number, not the string "-1"), None, NaN or an empty string. `n` is the
    required number of labels, `name` the argument's name in error messages.

    Examples
    --------
    >>> from asbc.learn.labels import encode_partial
    >>> encode_partial(["cat", None, "ant"])
    (array([ 1, -1,  0]), array(['ant', 'cat'], dtype='<U3'))
    """
    if labels is None:
        raise ValueError(f"{name} is None; pass one label per node, -1 or None where it is unknown.")
    # A list is read as objects: NumPy would turn None and NaN among strings into "None" and "nan".
    array = np.array(labels, dtype=object) if isinstance(labels, list | tuple) else np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one label per node, shape (n,); got shape {array.shape}.")
    if n is not None and len(array) != n:
        raise ValueError(f"{name} must have one entry per node: expected {n}, got {len(array)}.")
    unlabeled = is_unlabeled(array)
    if unlabeled.all():
        raise ValueError(f"{name} must have at least one label; all {len(array)} entries are unlabelled.")
    known = array[~unlabeled]
    if known.dtype == object:
        kinds = {_kind(value) for value in known}
        if len(kinds) > 1:
            raise ValueError(f"{name} must be of one kind; got {' and '.join(sorted(kinds))}.")
        known = np.array(known.tolist())
    codes = np.full(len(array), -1, dtype=np.int64)
    codes[~unlabeled], classes = encode_labels(known, name=name)
    return codes, classes


def align_rows(values: Any, index: Any, name: str) -> Any:
    """Return `values` in the order of the rows that have the pandas index `index`.

    Only a pandas object can be aligned. Anything else, and values for rows without an index, are returned unchanged.

    Raises
    ------
    ValueError
        If the index of `values` does not hold the same row names.
    """
    own = row_index(values)
    if own is None or index is None or own.equals(index):
        return values
    if len(own) == len(index) and own.is_unique and index.is_unique and own.isin(index).all():
        return values.loc[index]
    raise ValueError(
        f"{name} and the vectors have different pandas indexes. Pass one entry per row with the same index, or "
        f"{name}.to_numpy() to match them by position."
    )


def decode_partial(codes: NDArray[np.int64], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of class codes; -1 becomes -1, "" among strings, or None among booleans.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.labels import decode_partial
    >>> decode_partial(np.array([1, -1]), np.array(["ant", "cat"]))
    array(['cat', ''], dtype='<U3')
    """
    decoded = classes[np.maximum(codes, 0)]
    missing = codes < 0
    if missing.any():
        if classes.dtype.kind == "u":
            decoded = decoded.astype(np.int64)
        elif classes.dtype.kind == "b":
            decoded = decoded.astype(object)
        marker = {"U": "", "S": b"", "b": None}.get(classes.dtype.kind, -1)
        decoded[missing] = marker
    return decoded


def is_unlabeled(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which entries of an array mean "no label": -1 (a number), NaN, None and empty strings.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.labels import is_unlabeled
    >>> is_unlabeled(np.array(["cat", "", None, -1], dtype=object))
    array([False,  True,  True,  True])
    """
    if array.dtype.kind in "US":
        return np.char.str_len(array) == 0
    if array.dtype.kind == "f":
        return np.isnan(array) | (array == -1)
    if array.dtype.kind == "i":
        return array == -1
    if array.dtype.kind != "O":
        return np.zeros(len(array), dtype=bool)
    return np.fromiter((_is_missing(value) for value in array), dtype=bool, count=len(array))


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas' markers
        return True
    if isinstance(value, str):
        return value == ""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and bool(value != value or value == -1)


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "strings"
    if isinstance(value, bool | np.bool_):
        return "booleans"
    return "numbers" if isinstance(value, Real) else f"objects of type {type(value).__name__}"
