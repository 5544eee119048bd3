"""The folder of one run: begin, append, resume, finish.

It is named by its id, the hash of its settings and its data::

    <root>/<run id>/
        config.yaml       the resolved settings
        status.json       running, finished, failed or interrupted; a traceback if it failed
        parts/*.parquet   rows of each finished unit of work, while the run is not finished
        results.parquet   all rows, once it is

Every file is written beside its final name and moved there in one step, so a reader never sees half of one,
and a killed run goes on after its last finished unit. Every file has a checksum (:mod:`asbc.runs.sealed`).
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from asbc.files import sweep
from asbc.runs.sealed import (
    FORMAT,
    ResultsError,
    read_note,
    read_rows,
    read_unit,
    write_note,
    write_rows,
    write_text,
)
from asbc.runs.settings import FILE
from asbc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")


class Run:
    """The folder of one run, opened by one process at a time.

    Parameters
    ----------
    root : str or Path
        Where all runs are.
    id : str
        From :func:`asbc.runs.identity.run_id`.
    settings : mapping of plain values, default=None
        Kept as `config.yaml`.
    rerun : bool, default=False
        Start anew; what was there is set aside as `<run id>.replaced-<number>`.
    mix_versions : bool, default=False
        Go on with what another version of asbc has begun. Otherwise that is set aside, with a warning, and all rows
        of the run come from one version.

    See Also
    --------
    asbc.results.collect : the rows of all runs in one table.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.runs.folder import Run
    >>> with tempfile.TemporaryDirectory() as root, Run(root, "abc") as run:
    ...     done = run.begin(experiment="loo")
    ...     run.append("trial-0", [{"metric": "loo", "value": 0.9}])
    ...     table = run.finish()
    >>> table["value"].tolist()
    [0.9]
    """

    def __init__(
        self,
        root: str | Path,
        id: str,
        settings: Mapping[str, Any] | None = None,
        *,
        rerun: bool = False,
        mix_versions: bool = False,
    ) -> None:
        self.id = id
        self.path = Path(root) / id
        self.settings = dict(settings or {})
        self.rerun = rerun
        self.mix_versions = mix_versions
        self.status: dict[str, Any] = {}
        self._lock = FileLock(str(Path(root) / f".{id}.lock"))

    def __enter__(self) -> Run:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            log.warning("%s: %s is at work on this run; waiting for it to end", self.path, self._owner())
            self._lock.acquire()
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _owner(self) -> str:
        try:
            status = read_note(self.path / "status.json")
            return f"process {status['process']} on {status['host']}"
        except (OSError, ResultsError, KeyError):
            return "another process"

    def _open(self) -> None:
        if self.rerun and self.path.exists():
            self._set_aside()
        previous = read_status(self.path) if (self.path / "status.json").exists() else {}
        if previous.get("run_id", self.id) != self.id:
            raise ResultsError(f"{self.path}: holds a copy of the run {previous['run_id']}; move it away")
        begun_by = str(previous.get("version", "unknown"))
        if begun_by != __version__ and not self.finished and _parts(self.path):
            if self.mix_versions:
                log.warning(
                    "%s: asbc %s has done a part of this run (this is %s); it goes on, and its rows are of both",
                    self.path,
                    begun_by,
                    __version__,
                )
                previous["versions"] = sorted({*previous.get("versions", [begun_by]), begun_by, __version__})
            else:
                log.warning(
                    "%s: asbc %s has done a part of this run (this is %s); it is set aside as %s and the run starts "
                    "anew. mix_versions=true goes on with such a part",
                    self.path,
                    begun_by,
                    __version__,
                    self._set_aside(),
                )
                previous = {}
        kept = ("started", "ended", "seconds", "traceback", "version", "versions")
        self.status = {
            "format": FORMAT,
            "run_id": self.id,
            "state": previous.get("state", "new"),
            "attempt": int(previous.get("attempt", 0)),
            **{key: previous[key] for key in kept if key in previous},
        }
        # What a kill may have left: half-written files, and parts of a run that is finished.
        sweep(self.path)
        sweep(self.path / "parts")
        if self.finished and self.status["state"] == "finished":
            shutil.rmtree(self.path / "parts", ignore_errors=True)

    def _set_aside(self) -> str:
        number = 1
        while (aside := self.path.with_name(f"{self.id}.replaced-{number}")).exists():
            number += 1
        self.path.rename(aside)
        return aside.name

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        try:
            if error is not None and self.status["state"] == "running":
                stopped = isinstance(error, (KeyboardInterrupt, SystemExit))
                self.note(
                    "interrupted" if stopped else "failed",
                    error=f"{type(error).__name__}: {error}",
                    traceback="".join(traceback.format_exception(kind, error, trace)),
                )
        finally:
            self._lock.release()

    @property
    def finished(self) -> bool:
        """Whether all rows are there; then there is nothing left to do."""
        return (self.path / "results.parquet").exists()

    def begin(self, **facts: Any) -> set[str]:
        """Say that work starts, and tell which units of work an earlier attempt has finished.

        Parameters
        ----------
        **facts
            Plain values to keep in `status.json`.

        Returns
        -------
        done : set of str
            Names of finished units, whose rows are safe.
        """
        from omegaconf import OmegaConf

        write_text(self.path / FILE, OmegaConf.to_yaml(OmegaConf.create(self.settings)))
        self.status.pop("traceback", None)
        self.status.pop("error", None)
        self.status["attempt"] += 1
        where = {"process": os.getpid(), "host": os.uname().nodename}
        self.note("running", started=time.time(), **{**facts, **where, "version": __version__})
        # A torn or foreign file is found now, not after hours of work.
        return {part.stem for part, _ in _read_parts(self.path)}

    def append(self, unit: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep the rows of one finished unit of work, all or none.

        Parameters
        ----------
        unit : str
            Name of the unit; it becomes a file name.
        rows : mappings of column to value
        """
        write_rows(self.path / "parts" / f"{unit}.parquet", rows, unit=unit)

    def rows(self) -> pd.DataFrame:
        """All rows on disk so far."""
        return join_rows(read_run(self.path))

    def finish(self, **facts: Any) -> pd.DataFrame:
        """Join the parts into `results.parquet` and mark the run finished."""
        frame = self.rows()
        if not self.finished:
            write_rows(self.path / "results.parquet", frame)
        self.note("finished", rows=len(frame), **facts)
        # Only now may the parts go: at any earlier moment a kill would leave rows in neither place.
        shutil.rmtree(self.path / "parts", ignore_errors=True)
        return frame

    def note(self, state: str, **facts: Any) -> None:
        """Keep the run's state, and plain values beside it, in `status.json`."""
        self.status.update(facts, state=state)
        if state != "running":
            self.status["ended"] = time.time()
            self.status["seconds"] = self.status["ended"] - self.status.get("started", self.status["ended"])
        write_note(self.path / "status.json", self.status)


def read_status(folder: Path) -> dict[str, Any]:
    """Status of a run's folder, refused if another version of the format wrote it."""
    try:
        status = read_note(folder / "status.json")
    except FileNotFoundError:
        raise ResultsError(f"{folder}: not a run's folder, it has no status.json") from None
    found = status.get("format")
    if found != FORMAT:
        raise ResultsError(
            f"{folder / 'status.json'}: results of format {found}, this version reads and writes format {FORMAT}; "
            "give another results folder, or move this one away"
        )
    return status


def read_run(folder: Path) -> list[pd.DataFrame]:
    """All rows of a run so far: of the whole table, if it is there, else of its parts."""
    whole = folder / "results.parquet"
    if not whole.exists():
        try:
            return [frame for _, frame in _read_parts(folder)]
        except ResultsError:
            if not whole.exists():
                raise
            # The run was finished in this moment, and the parts went.
    return [read_rows(whole)]


def _parts(folder: Path) -> list[Path]:
    return sorted((folder / "parts").glob("*.parquet"))


def _read_parts(folder: Path) -> Iterator[tuple[Path, pd.DataFrame]]:
    """The parts of a run with their rows, but not those that are copies of another one under a name of their own."""
    for part in _parts(folder):
        unit, frame = read_unit(part)
        if unit in (None, part.stem):
            yield part, frame
        else:
            log.warning("%s: the rows of %s under another name; left out", part, unit)


def join_rows(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """One table of several; a column that one of them does not have is empty there."""
    import pandas as pd

    columns = list(dict.fromkeys(column for frame in frames for column in frame.columns))
    # All-missing columns must not take part in the choice of a column's type.
    filled = [frame.dropna(axis="columns", how="all") for frame in frames if len(frame)]
    joined = pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()
    return joined.reindex(columns=columns)
