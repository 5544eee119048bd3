"""Mirrors of the result table: what every logger has, and the CSV file. The table on disk is the truth."""

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

# Bits for the paired intervals; of no use to a reader of tables.
NOT_SHOWN = ["scored", "right"]


@dataclass(frozen=True)
class RunFacts:
    """What a logger is told about a run.

    Attributes
    ----------
    run_id : str
    attempt : int
        1 at the first start, more after a kill or a failure.
    path : Path
        The run's folder.
    settings : mapping
        The resolved config.
    facts : mapping
        experiment, dataset, encoder, group, ...
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
        """Close; `error` is what stopped the run, None if nothing did."""


class Mirror(Session):
    """A session whose troubles are told and not raised: the rows are safe without it."""

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
    """`results.csv` beside the Parquet file, when a run is finished."""

    def __call__(self, run: RunFacts) -> Session:
        return _CsvSession(run)


class _CsvSession(Session):
    def __init__(self, run: RunFacts) -> None:
        self.run = run

    def conclude(self, table: pd.DataFrame) -> None:
        shown = table.drop(columns=NOT_SHOWN, errors="ignore")
        write_whole(self.run.path / "results.csv", lambda path: shown.to_csv(path, index=False))
