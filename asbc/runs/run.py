"""From a config to rows of results: every method on every sample, measured by every task, and copied by loggers."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from omegaconf import DictConfig, OmegaConf
from threadpoolctl import threadpool_limits

from asbc.configs import build
from asbc.embeddings.store import Embeddings, fingerprint
from asbc.evaluate.comparison import pack_hits
from asbc.evaluate.sample import Method, Sample
from asbc.evaluate.tasks import Score, Task
from asbc.kernels.threads import thread_count
from asbc.progress import Progress
from asbc.runs.record import Experiment, load_record, write_record
from asbc.runs.results import PER_NODE, Run, flat_settings, run_id
from asbc.runs.samples import (
    check_settings,
    draw,
    level_in_words,
    own_levels,
    plan,
    sample_columns,
    scorable,
    why_not_scored,
)
from asbc.storage import write_atomic
from asbc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

# Keys of a config that do not change the results, so they are not part of a run's id. The embeddings are represented by
# a hash of their contents; `gamma` and `n_grid` are copied into `bandwidth`.
NOT_SETTINGS = {
    "embedding", "logger", "out", "rerun", "threads", "progress", "stages", "levels", "own_levels", "record", "tags",
    "optimized_metric", "gamma", "n_grid",
}  # fmt: skip


# Loggers


@dataclass(frozen=True)
class RunFacts:
    """What a logger knows about a run."""

    run_id: str
    attempt: int  # 1 at the first start, more after a kill or a failure
    path: Path  # the run's folder
    settings: Mapping[str, Any]  # the resolved config
    # `experiment`, `dataset`, `encoder`, `fingerprint` of the vectors, `version` of asbc, `tags`, `overrides` as typed,
    # and `group`, the sweep that the run is part of.
    facts: Mapping[str, Any]


class Session(AbstractContextManager["Session"]):
    """What a logger does with one run: entered before the first unit, left after the last."""

    def conclude(self, table: pd.DataFrame) -> None:
        """Copy the rows of a finished run."""

    def complete(self) -> bool:
        """Whether everything that this logger writes of a finished run is there; if not, `conclude` is called again."""
        return True

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Close; `error` is what stopped the run, or None."""


class Mirror(AbstractContextManager["Mirror"]):
    """A session whose errors become warnings, so that a logger never stops a run. Its first error closes it."""

    def __init__(self, session: Session) -> None:
        self.session: Session | None = session

    def _try(self, what: str, *arguments: Any) -> None:
        if self.session is None:
            return
        try:
            getattr(self.session, what)(*arguments)
        except Exception as error:
            text = "%s failed, the run continues without it: %s: %s"
            log.warning(text, type(self.session).__name__, type(error).__name__, error)
            if what == "conclude":
                self._try("__exit__", type(error), error, None)
            self.session = None

    def __enter__(self) -> Mirror:
        self._try("__enter__")
        return self

    def conclude(self, table: pd.DataFrame) -> None:
        self._try("conclude", table)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._try("__exit__", kind, error, trace)


class CsvLogger:
    """Write `results.csv` next to `results.parquet` when a run is finished: `logger=csv`.

    See Also
    --------
    WandbLogger : the same rows in Weights & Biases.
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


# Runs


@dataclass(frozen=True)
class Outcome:
    """Result of :func:`run`: the run's folder and rows, and whether it was `skipped` because it was finished before."""

    run_id: str
    path: Path
    skipped: bool
    table: pd.DataFrame
    record: Experiment
    version: str = __version__  # of asbc, that finished it


def run(
    cfg: DictConfig, *, group: str | None = None, overrides: Sequence[str] = (), threads: int | None = None
) -> Outcome:
    """Run one experiment, or the part of it that is missing.

    Parameters
    ----------
    cfg : DictConfig
        As composed from `conf/`.
    group : str, default=None
        Name of the sweep that the run is part of, for the loggers.
    overrides : sequence of str, default=()
        What was typed, for the loggers.
    threads : int, default=None
        Threads of compiled code; None for all cores.

    Returns
    -------
    Outcome
    """
    methods: dict[str, Method] = _build_all(cfg, "methods")
    tasks: dict[str, Task] = _build_all(cfg, "evaluate")
    check_settings(cfg, methods, tasks)
    described = [metric for task in tasks.values() for metric in task.metrics]
    record = load_record(cfg.get("record"), str(cfg.name)).described(described).with_methods(methods)
    embeddings: Embeddings = build(cfg.embedding, "embedding").load()
    if cfg.samples_per_class == "auto":  # set by embedding=files
        cfg = OmegaConf.merge(cfg, {"samples_per_class": own_levels(cfg.levels, embeddings)})  # type: ignore[assignment]
    tasks = scorable(embeddings, tasks)
    settings = settings_of(cfg)
    facts = {
        "experiment": str(cfg.name),
        "dataset": embeddings.name,
        "encoder": embeddings.encoder,
        "embedding": OmegaConf.to_container(cfg.embedding, resolve=True),
        "fingerprint": embeddings.fingerprint,
        "vectors": fingerprint(embeddings.vectors),
        "labelled": why_not_scored(embeddings) is None,
        "version": __version__,
        "group": group,
        "overrides": list(overrides),
        "tags": list(cfg.get("tags") or []),
    }
    id = run_id(settings, embeddings.fingerprint)
    with Run(Path(cfg.out) / "runs", id, {**settings, "data": facts}, rerun=bool(cfg.rerun)) as folder:
        skipped = folder.finished
        done = set() if skipped else folder.begin(**facts)
        write_record(folder.path, record)  # titles and colors may have changed
        about = RunFacts(id, folder.status["attempt"], folder.path, settings, facts)
        sessions: list[Session] = [logger(about) for logger in _build_all(cfg, "logger").values()]
        with ExitStack() as stack:
            open_ones = [session for session in sessions if not (skipped and session.complete())]
            loggers = [stack.enter_context(Mirror(session)) for session in open_ones]
            if skipped:
                table = folder.rows()
            else:
                stack.enter_context(_limit_threads(threads))
                table = _compute(cfg, folder, done, embeddings, methods, tasks)
            for logger in loggers:
                logger.conclude(table)
        return Outcome(id, folder.path, skipped, table, record, str(folder.status.get("version", "unknown")))


def _compute(
    cfg: DictConfig,
    folder: Run,
    done: set[str],
    embeddings: Embeddings,
    methods: dict[str, Method],
    tasks: dict[str, Task],
) -> pd.DataFrame:
    """Compute and keep the units that are not `done`, and return all rows."""
    units = plan(cfg, embeddings, tasks)
    folder.note("running", units=len(units))
    scores = len(tasks) * len(methods)  # per unit
    progress = Progress(shown=bool(cfg.progress))
    parent = os.getppid() if multiprocessing.parent_process() else None
    sample: Sample | None = None
    with progress.step(str(cfg.name), len(units) * scores, len(done) * scores, unit="scores") as advance:
        for unit in (unit for unit in units if unit.name not in done):
            if parent not in (None, os.getppid()):  # a worker of a sweep that was killed
                folder.note("interrupted")
                os._exit(1)
            sample = draw(cfg, embeddings, unit, sample)
            rows = measure(cfg, embeddings, sample, methods, tasks, progress=advance)
            folder.append(unit.name, [{"run_id": folder.id, **row} for row in rows])
    return folder.finish()


def settings_of(cfg: DictConfig) -> dict[str, Any]:
    """Return the part of a config that decides the results, resolved to plain values."""
    plain = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    settings = {str(key): value for key, value in plain.items() if key not in NOT_SETTINGS}
    for method in (settings.get("methods") or {}).values():
        if isinstance(method, dict):
            method.pop("title", None), method.pop("color", None)
    levels = settings["samples_per_class"]
    return settings | {"samples_per_class": levels if isinstance(levels, list) else [levels]}


def measure(
    cfg: DictConfig,
    embeddings: Embeddings,
    sample: Sample,
    methods: Mapping[str, Method],
    tasks: Mapping[str, Task],
    *,
    progress: Any = None,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one sample: every task on every method."""
    shared = {
        "experiment": str(cfg.name),
        "dataset": embeddings.name,
        "encoder": embeddings.encoder,
        "samples": sample.level,
        "trial": sample.trial,
        **sample_columns(sample),
        "seed": int(cfg.seed),
        "k_cand": int(cfg.k_cand),
        **_flat("embedding", cfg.embedding),
        **_flat("neighbors", {**cfg.neighbors, "k": None}),  # it is k_cand
        **_flat("dimension", cfg.dimension),
        **_flat("graph", cfg.graph),
    }
    where = level_in_words(sample.level)
    for task_name, task in tasks.items():
        options = _flat(task_name, cfg.evaluate[task_name])
        for name, method in methods.items():
            try:
                for score in task(sample, method):
                    own = score.method is None
                    yield {
                        **shared,
                        "method": name if own else score.method,
                        **_describe(method, own),
                        **options,
                        **_row(score, sample),
                        **(_cost(sample, method) if own else {}),
                    }
            except Exception:
                log.error("failed in evaluate.%s of %s, %s, trial %d", task_name, name, where, sample.trial)
                raise
            if progress is not None:
                progress(1, f"trial {sample.trial + 1}, {where}, {task_name} {name}")


def _row(score: Score, sample: Sample) -> dict[str, Any]:
    scored = right = None
    if score.nodes is not None and score.right is not None:
        scored, right = pack_hits(score.nodes, score.right, sample.total)
    return {
        "level": score.level,
        "metric": score.metric,
        "value": float(score.value),
        "seconds": score.seconds,
        **score.more,
        "scored": scored,
        "right": right,
    }


def _cost(sample: Sample, method: Method) -> dict[str, float]:
    """Seconds of the method's graph on this sample, and of the search alone."""
    return {"search_seconds": sample.search_seconds, "build_seconds": sample.seconds(method, graph=True)}


def _describe(method: Method, own: bool) -> dict[str, Any]:
    """Columns that describe a method. Candidates that a task tunes (not `own`) have no bandwidth rule."""
    columns: dict[str, Any] = {"weights": method.kind}
    if not own:
        return columns
    columns |= {"sharpen": method.sharpen, **_parameters("weights", method.weights)}
    rule = method.bandwidth if method.weight_rule().uses_bandwidth else None
    return columns | {"bandwidth": None if rule is None else type(rule).__name__, **_parameters("bandwidth", rule)}


def _parameters(prefix: str, value: Any) -> dict[str, Any]:
    """Columns of the parameters of a rule, or of a function with some of its arguments given."""
    found: Mapping[str, Any] = {}
    if hasattr(value, "get_params"):
        found = value.get_params(deep=False)
    elif isinstance(value, functools.partial):
        found = value.keywords
    return {f"{prefix}.{name}": _plain(item) for name, item in found.items()}


def _plain(value: Any) -> Any:
    """Return numbers as they are and the rest as text, so that a column never mixes types."""
    return value if isinstance(value, bool | int | float) or value is None else repr(value).strip("'")


def _flat(prefix: str, node: Any) -> dict[str, Any]:
    """Columns of the plain values in a part of the config, by their dotted path; empty ones are left out."""
    plain: Any = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    return {
        name: value
        for name, value in flat_settings(plain, f"{prefix}.").items()
        if isinstance(value, bool | int | float | str) and not name.rpartition(".")[2].startswith("_")
    }


def _build_all(cfg: DictConfig, group: str) -> dict[str, Any]:
    """Return the objects of a config group by name; none if the group is absent."""
    return {str(name): build(node, f"{group}.{name}") for name, node in (cfg.get(group) or {}).items() if node}


@contextmanager
def _limit_threads(count: int | None) -> Iterator[None]:
    """Run compiled loops on `count` threads and matrix products on one: their last bits depend on the number."""
    before = thread_count()
    numba.set_num_threads(min(count or before, before))
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        numba.set_num_threads(before)
