"""Loggers copy the rows of a run to other places: the base class, and the logger that writes a CSV file.

A logger that fails does not stop the run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.runs.results import PER_NODE
from asbc.storage import write_atomic

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")


@dataclass(frozen=True)
class RunFacts:
    """What a logger knows about a run.

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
        `experiment`, `dataset`, `encoder`, `fingerprint` of the vectors, `version` of asbc, `tags`, and `group`, the
        sweep that the run is part of.
    """

    run_id: str
    attempt: int
    path: Path
    settings: Mapping[str, Any]
    facts: Mapping[str, Any]


class Session(AbstractContextManager["Session"]):
    """A logger of one run: entered before the first row, left after the last."""

    def log(self, rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> None:
        """Log the rows of a finished unit."""

    def conclude(self, table: pd.DataFrame) -> None:
        """Log the whole table of a finished run."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Close; `error` is what stopped the run, or None."""

    def complete(self) -> bool:
        """Whether everything that this logger writes of a finished run is there; if not, `conclude` is called again."""
        return True


class Mirror(Session):
    """A session whose errors become warnings.

    Parameters
    ----------
    session : Session
        Closed after its first error.
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
                "%s failed, the run continues without it: %s: %s",
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
    """Write `results.csv` next to `results.parquet` when a run is finished: `logger=csv`.

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
        write_atomic(self._path, table.drop(columns=PER_NODE, errors="ignore").to_csv(index=False))

    def complete(self) -> bool:
        return self._path.exists()
