"""Corrections of labels: the CSV file that the page of ``asbc-explore`` exports, and labels after it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asbc.extras import needed

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("node", "given", "decision", "label")


def read_corrections(corrections: str | os.PathLike | pd.DataFrame) -> pd.DataFrame:
    """Return corrections as a table of text with the columns node (int64), given, decision and label.

    ``given`` and ``decision`` may be missing: then the label is new ("other") and not compared with the old one.
    """
    with needed("corrections", "experiments"):
        import pandas as pd
    name = "corrections"
    if isinstance(corrections, pd.DataFrame):
        table = corrections.astype(str)
    else:
        name = str(corrections)
        try:
            table = pd.read_csv(corrections, dtype=str, keep_default_na=False)
        except pd.errors.EmptyDataError:
            table = pd.DataFrame()
    missing = {"node", "label"} - set(table)
    if missing:
        raise ValueError(
            f"{name}: no column {' and '.join(sorted(missing))}; has {', '.join(map(str, table)) or 'none'}."
        )
    odd = table["node"][~table["node"].str.fullmatch(r"[0-9]{1,18}")]
    if len(odd):
        raise ValueError(f"{name}: node must be a row number from 0; got {odd.iloc[0]!r}.")
    table = table.assign(node=table["node"].astype(np.int64))
    if table["node"].duplicated().any():
        raise ValueError(f"{name}: node {table['node'][table['node'].duplicated()].iloc[0]} occurs more than once.")
    return table.assign(**{key: value for key, value in (("given", None), ("decision", "other")) if key not in table})


def apply_corrections(labels: NDArray[Any], corrections: pd.DataFrame) -> NDArray[Any]:
    """Return labels after corrections from :func:`read_corrections`; strings stay strings, numbers numbers.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from asbc.learn.corrections import apply_corrections, read_corrections
    >>> table = pd.DataFrame({"node": [1], "given": ["cat"], "label": ["horse"]})
    >>> apply_corrections(np.array(["ant", "cat"]), read_corrections(table))
    array(['ant', 'horse'], dtype='<U5')
    """
    nodes = corrections["node"].to_numpy()
    if len(nodes) and nodes.max() >= len(labels):
        raise ValueError(f"corrections: node {nodes.max()} is not one of the {len(labels):,} nodes.")
    corrected = labels.tolist()
    for node, given, label in corrections[["node", "given", "label"]].itertuples(index=False):
        old = corrected[node]
        if given is not None and given != str("" if old is None else old):
            raise ValueError(f"corrections: node {node} has the label {str(old)!r}; the file says {given!r}.")
        corrected[node] = _like(labels, label)
    return np.array(corrected, dtype=labels.dtype if labels.dtype.kind not in "US" else None)


def _like(labels: NDArray[Any], label: str) -> Any:
    """Return a label of the file as the kind of the given ones."""
    kind = labels.dtype.kind
    try:
        if kind in "iu":
            return int(label)
        if kind in "bO":
            return {"True": True, "False": False}[label]
    except (KeyError, ValueError):
        wanted = "a whole number" if kind in "iu" else "True or False"
        raise ValueError(f"corrections: label must be {wanted}, as the labels are; got {label!r}.") from None
    return label.encode() if kind == "S" else label
