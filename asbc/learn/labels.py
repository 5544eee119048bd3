"""Labels: class codes for labels of any kind, alignment, the choice of labelled nodes, and corrections."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asbc.extras import needed
from asbc.validation import class_codes, plain_array, row_index, whole_number

if TYPE_CHECKING:
    import pandas as pd


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
    codes = class_codes(codes, None, least=-1)
    for number in seed if isinstance(seed, list | tuple) else [seed]:
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
    """Encode labels as class codes from 0, with -1 for unlabelled nodes; return codes (n,) and sorted classes (c,).

    Labels are integers, strings or booleans. A node is unlabelled if its label is -1 (a number, not the string "-1"),
    None, NaN or an empty string. `n` is the required number of labels, `name` the argument's name in error messages.

    Examples
    --------
    >>> from asbc.learn.labels import encode_partial
    >>> encode_partial(["cat", None, "ant"])
    (array([ 1, -1,  0]), array(['ant', 'cat'], dtype='<U3'))
    """
    if labels is None:
        raise ValueError(f"{name} is None; pass one label per node, -1 or None where it is unknown.")
    labels = plain_array(labels, name)
    # A list is read as objects: NumPy would turn None and NaN among strings into "None" and "nan".
    array = np.array(labels, dtype=object) if isinstance(labels, list | tuple) else np.asarray(labels)
    if array.ndim != 1 or n not in (None, len(array)):
        wanted = "(n,)" if n is None else f"({n},)"
        raise ValueError(f"{name} must be one label per node, shape {wanted}; got shape {array.shape}.")
    labeled = ~is_unlabeled(array)
    if not labeled.any():
        raise ValueError(f"{name} must have at least one label; all {len(array)} entries are unlabelled.")
    known = array[labeled]
    if known.dtype == object:
        kinds = {_kind(value) for value in known}
        if len(kinds) > 1:
            raise ValueError(f"{name} must be of one kind; got {' and '.join(sorted(kinds))}.")
        known = np.array(known.tolist())
    if known.dtype.kind == "f" and (np.isfinite(known) & (known == np.floor(known))).all():
        known = known.astype(np.int64)
    if known.dtype.kind not in "biuUS":
        raise ValueError(
            f"{name} must be strings, booleans, or numbers that are whole and finite; got dtype {known.dtype}."
        )
    codes = np.full(len(array), -1, dtype=np.int64)
    classes, codes[labeled] = np.unique(known, return_inverse=True)
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
    missing, kind = codes < 0, classes.dtype.kind
    if not missing.any():
        return classes[codes]
    decoded = classes[np.maximum(codes, 0)].astype({"u": np.int64, "b": object}.get(kind, classes.dtype))
    decoded[missing] = {"U": "", "S": b"", "b": None}.get(kind, -1)
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
    if array.dtype.kind in "if":
        return (array == -1) | np.isnan(array)
    return np.array([array.dtype == object and _is_missing(value) for value in array], dtype=bool)


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


def read_corrections(corrections: str | os.PathLike | pd.DataFrame) -> pd.DataFrame:
    """Return corrections as a table of text with the columns node (int64), given, decision and label.

    They are a DataFrame, or the CSV file that the page of ``asbc-explore`` exports. ``given`` and ``decision`` may be
    missing: then the label is new ("other") and not compared with the old one.
    """
    with needed("corrections", "experiments"):
        import pandas as pd
    if isinstance(corrections, pd.DataFrame):
        name, table = "corrections", corrections.astype(str)
    else:
        name = str(corrections)
        try:
            table = pd.read_csv(corrections, dtype=str, keep_default_na=False)
        except ValueError as error:  # an empty file, or not a table
            raise ValueError(f"{name}: not a readable CSV file ({error}).") from error
    if not {"node", "label"} <= set(table):
        raise ValueError(f"{name}: must have the columns node and label; has {', '.join(map(str, table))}.")
    wrong = table["node"][~table["node"].str.fullmatch(r"[0-9]{1,18}") | table["node"].duplicated()]
    if len(wrong):
        raise ValueError(f"{name}: node must be a row number from 0 that occurs once; got {wrong.iloc[0]!r}.")
    return pd.DataFrame({"given": None, "decision": "other"} | dict(table)).astype({"node": np.int64})


def apply_corrections(labels: NDArray[Any], corrections: pd.DataFrame) -> NDArray[Any]:
    """Return labels after corrections from :func:`read_corrections`; strings stay strings, numbers numbers.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from asbc.learn.labels import apply_corrections, read_corrections
    >>> table = pd.DataFrame({"node": [1], "given": ["cat"], "label": ["horse"]})
    >>> apply_corrections(np.array(["ant", "cat"]), read_corrections(table))
    array(['ant', 'horse'], dtype='<U5')
    """
    kind, corrected = labels.dtype.kind, labels.tolist()
    boolean: Any = {"True": True, "False": False}.__getitem__
    read = {"i": int, "u": int, "b": boolean, "O": boolean, "S": str.encode}.get(kind, str)
    for node, given, label in corrections[["node", "given", "label"]].itertuples(index=False):
        if node >= len(labels):
            raise ValueError(f"corrections: node {node} is not one of the {len(labels):,} nodes.")
        old = "" if corrected[node] is None else str(corrected[node])
        if given is not None and given != old:
            raise ValueError(f"corrections: node {node} has the label {old!r}; the file says {given!r}.")
        try:
            corrected[node] = read(label)
        except (KeyError, ValueError):
            raise ValueError(f"corrections: {label!r} is not of the same kind as the labels, {labels.dtype}.") from None
    return np.array(corrected, dtype=None if kind in "US" else labels.dtype)
