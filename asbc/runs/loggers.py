"""Loggers copy the result table to other places: what all of them share, and the one that writes a CSV file.

The Parquet file of the run is what counts; a logger that fails does not stop the run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

# Packed bits that paired intervals need; of no use to a reader of tables.
NOT_SHOWN = ["scored", "right", "density"]


@dataclass(frozen=True)
class RunFacts:
    """What a logger is told about a run.

    Attributes
    ----------
    run_id : str
        Name of the run, from its settings and data.
    attempt : int
        1 at the first start, more after a kill or a failure.
    path : Path
        The run's folder.
    settings : mapping
        The resolved config.
    facts : mapping
        `experiment`, `dataset`, `encoder`, `fingerprint` of the vectors, `version` of asbc, and `group`, the sweep
        that the run is part of.
    """

    run_id: str
    attempt: int
    path: Path
    settings: Mapping[str, Any]
    facts: Mapping[str, Any]


class Session(AbstractContextManager["Session"]):
    """A logger at work on one run: entered before the first row, left after the last, whatever happens."""

    def log(self, rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> None:
        """Take the rows of a finished unit."""

    def conclude(self, table: pd.DataFrame) -> None:
        """Take the whole table, once all rows are there."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Close; `error` is what stopped the run, or None."""

    def lacks(self) -> bool:
        """Whether a finished run is without what this logger leaves, so that it is to be made from the table.

        No, unless a logger knows: W&B's copy is made by `asbc-upload`, which sends a run once.
        """
        return False


class Mirror(Session):
    """A session whose errors become warnings, since the rows are safe without it.

    Parameters
    ----------
    session : Session
        After its first error it is closed and not used again.
    """

    def __init__(self, session: Session) -> None:
        self.session: Session | None = session

    def _try(self, what: str, *arguments: Any) -> None:
        if self.session is None:
            return
        try:
            getattr(self.session, what)(*arguments)
        except Exception as error:
            log.warning(
                "%s gave up, the run goes on without it: %s: %s",
                type(self.session).__name__,
                type(error).__name__,
                error,
            )
            if what not in ("__enter__", "__exit__"):
                self._try("__exit__", type(error), error, None)
            self.session = None

    def __enter__(self) -> Mirror:
        self._try("__enter__")
        return self

    def log(self, rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> None:
        self._try("log", rows)

    def conclude(self, table: pd.DataFrame) -> None:
        self._try("conclude", table)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._try("__exit__", kind, error, trace)


class CsvLogger:
    """Writes `results.csv` beside the Parquet file when a run is finished: `logger=csv`.

    See Also
    --------
    WandbLogger : the same rows in Weights & Biases.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from asbc.runs import CsvLogger
    >>> from asbc.runs.loggers import RunFacts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with CsvLogger()(RunFacts("abc", 1, Path(folder), {}, {})) as session:
    ...         session.conclude(pd.DataFrame({"method": ["knn"], "value": [0.9]}))
    ...     print((Path(folder) / "results.csv").read_text().split())
    ['method,value', 'knn,0.9']
    """

    def __call__(self, facts: RunFacts) -> Session:
        return _CsvSession(facts)


class _CsvSession(Session):
    def __init__(self, facts: RunFacts) -> None:
        self._path = facts.path / "results.csv"

    def conclude(self, table: pd.DataFrame) -> None:
        shown = table.drop(columns=NOT_SHOWN, errors="ignore")
        write_whole(self._path, lambda path: shown.to_csv(path, index=False))

    def lacks(self) -> bool:
        return not self._path.exists()
