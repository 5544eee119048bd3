"""Which settings and data are one and the same run, whatever version of asbc and whatever folder it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def run_id(settings: Mapping[str, Any], fingerprint: str) -> str:
    """Name of a run: a hash of its resolved settings and of its data.

    Parameters
    ----------
    settings : mapping of plain values
        Neither the order of keys matters, nor whether a whole number is written 1 or 1.0, nor in which module of
        asbc a class stands: of a ``_target_`` in asbc only the last name counts, so that a finished run is still
        found when code has moved. A ``_target_`` elsewhere counts in full, since two projects may use one name.
    fingerprint : str
        Hash of the embeddings.

    Returns
    -------
    str
        16 hexadecimal digits.

    See Also
    --------
    asbc.runs.results.Run : the folder of that name.

    Examples
    --------
    >>> from asbc.runs.identity import run_id
    >>> run_id({"_target_": "asbc.Fixed", "value": 1}, "") == run_id({"value": 1.0, "_target_": "asbc.old.Fixed"}, "")
    True
    """
    text = json.dumps([canonical(settings), fingerprint], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def canonical(value: Any) -> Any:
    """Settings in the one form that counts for a run's id; see :func:`run_id`."""
    if isinstance(value, Mapping):
        return {str(key): _name(item) if key == "_target_" else canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _name(target: Any) -> str:
    room, _, name = str(target).rpartition(".")
    return name if room.partition(".")[0] == "asbc" else str(target)
