"""Results of all runs under a folder: which runs there are, and their rows in one table."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.runs.folder import Run, join_rows, read_run, read_status
from asbc.runs.sealed import ResultsError, read_rows
from asbc.runs.settings import read_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ResultsError", "Run", "collect", "read_rows", "read_settings", "read_status", "runs"]

log = logging.getLogger("asbc")


def runs(root: str | Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every run under a folder, with its status.

    Runs that `rerun=true` has set aside are left out. Of several folders of one and the same run, such as a copy that
    somebody made, one is taken, with a warning: a finished one if there is one, and the one that has the run's name.

    Parameters
    ----------
    root : str or Path
        The folder that `asbc` wrote (`outputs`), one run's own folder, or any folder above.

    Yields
    ------
    folder : Path
        Of the run; `results.parquet` in it has the rows once the run is finished.
    status : dict
        Contents of its `status.json`: `state` (running, finished, failed or interrupted), `experiment`, `dataset`,
        `encoder`, `version` of asbc, `rows`, `seconds` and more.

    See Also
    --------
    collect : the rows of all runs in one table.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.results import runs
    >>> from asbc.runs.results import Run
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with Run(root, "abc") as run:
    ...         done = run.begin(experiment="loo")
    ...         table = run.finish()
    ...     print([(folder.name, status["state"]) for folder, status in runs(root)])
    [('abc', 'finished')]
    """
    root = Path(root)
    if not root.exists():
        raise ResultsError(f"{root}: no such folder")
    found: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path in sorted(root.rglob("status.json")):
        if ".replaced-" not in path.parent.name:
            status = read_status(path.parent)
            found.setdefault(str(status.get("run_id", path.parent)), []).append((path.parent, status))
    for id, copies in found.items():
        best = max(copies, key=lambda copy: (copy[1].get("state") == "finished", copy[0].name == id))
        for folder, _ in copies:
            if folder is not best[0]:
                log.warning("%s: the same run as %s; left out", folder, best[0])
        yield best


def collect(root: str | Path, *, finished_only: bool = False) -> pd.DataFrame:
    """One long table of all runs under a folder.

    Parameters
    ----------
    root : str or Path
        The folder that `asbc` wrote (`outputs`), one run's own folder, or any folder above.
    finished_only : bool, default=False
        Leave out runs that are still going, failed or were stopped.

    Returns
    -------
    DataFrame
        One row per run, method, level, trial and metric: `value` is what was measured, and every setting has a
        column of its own (`k_cand`, `bandwidth.gamma`, ...), empty where a run does not have it.

    See Also
    --------
    runs : the folders and states of the runs.
    asbc.evaluate.compare_methods : two methods of the table against each other.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.results import collect
    >>> from asbc.runs.results import Run
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for number, name in enumerate(["abc", "def"]):
    ...         with Run(root, name) as run:
    ...             done = run.begin(experiment="loo")
    ...             run.append("trial-0", [{"method": "knn", "metric": "loo", "value": 0.5 + number / 4}])
    ...             table = run.finish()
    ...     print(collect(root)["value"].tolist())
    [0.5, 0.75]
    """
    frames: list[pd.DataFrame] = []
    for folder, status in runs(root):
        if finished_only and status.get("state") != "finished":
            continue
        frames.extend(read_run(folder))
    if not frames:
        raise ResultsError(f"{root}: no results in it")
    return join_rows(frames)
