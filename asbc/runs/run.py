"""From a config to rows of results: every method on every sample, measured by every task."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from omegaconf import DictConfig, OmegaConf
from threadpoolctl import threadpool_limits

from asbc.configs import build
from asbc.embeddings.store import Embeddings, fingerprint
from asbc.evaluate.comparison import pack_hits
from asbc.evaluate.method import Method
from asbc.evaluate.sample import Sample
from asbc.evaluate.tasks import Score, Task
from asbc.progress import Progress
from asbc.runs.loggers import Mirror, RunFacts, Session
from asbc.runs.record import Experiment, load_record, write_record
from asbc.runs.results import Run, run_id
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


@dataclass(frozen=True)
class Outcome:
    """Result of :func:`run`.

    Attributes
    ----------
    run_id : str
        Name of the run, from its settings and data.
    path : Path
        The run's folder.
    skipped : bool
        Whether it was finished before, so that nothing was computed.
    table : DataFrame
        All its rows.
    record : Experiment
        What the experiment is.
    version : str
        The version of asbc that finished it.
    """

    run_id: str
    path: Path
    skipped: bool
    table: pd.DataFrame
    record: Experiment
    version: str = __version__


def run(cfg: DictConfig, *, group: str | None = None, threads: int | None = None) -> Outcome:
    """Run one experiment, or the part of it that is missing.

    Parameters
    ----------
    cfg : DictConfig
        As composed from `conf/`.
    group : str, default=None
        Name of the sweep that the run is part of, for the loggers.
    threads : int, default=None
        Threads of compiled code; None for all cores.

    Returns
    -------
    Outcome
    """
    methods: dict[str, Method] = {name: build(node, f"methods.{name}") for name, node in _items(cfg.get("methods"))}
    tasks: dict[str, Task] = {name: build(node, f"evaluate.{name}") for name, node in _items(cfg.get("evaluate"))}
    check_settings(cfg, methods, tasks)
    described = [metric for task in tasks.values() for metric in task.metrics]
    record = load_record(cfg.get("record"), str(cfg.name)).described(described).with_methods(methods)
    embeddings: Embeddings = build(cfg.embedding, "embedding").load()
    if cfg.samples_per_class == "auto":  # set by embedding=files
        cfg = OmegaConf.merge(cfg, {"samples_per_class": own_levels(cfg.levels, embeddings)})  # type: ignore[assignment]
    tasks = scorable(embeddings, tasks)
    settings = settings_of(cfg)
    id = run_id(settings, embeddings.fingerprint)
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
        "tags": list(cfg.get("tags") or []),
    }
    with Run(Path(cfg.out) / "runs", id, {**settings, "data": facts}, rerun=bool(cfg.rerun)) as folder:
        if folder.finished:
            table = folder.rows()
            write_record(folder.path, record)  # titles and colors may have changed
            for session in _sessions(cfg, folder, settings, facts):
                if not session.complete():
                    with Mirror(session) as logger:
                        logger.conclude(table)
            return Outcome(id, folder.path, True, table, record, str(folder.status.get("version", "unknown")))
        done = folder.begin(**facts)
        write_record(folder.path, record)
        units = plan(cfg, embeddings, tasks)
        folder.note("running", units=len(units))
        with ExitStack() as stack:
            stack.enter_context(_limit_threads(threads))
            loggers = [Mirror(session) for session in _sessions(cfg, folder, settings, facts)]
            for logger in loggers:
                stack.enter_context(logger)
            if done:
                for logger in loggers:
                    logger.log(folder.rows())
            scores = len(tasks) * len(methods)  # per unit
            progress = Progress(shown=bool(cfg.progress))
            advance = stack.enter_context(
                progress.step(str(cfg.name), len(units) * scores, len(done) * scores, unit="scores")
            )
            sample: Sample | None = None
            parent = os.getppid() if multiprocessing.parent_process() else None
            for unit in units:
                if unit.name in done:
                    continue
                if parent not in (None, os.getppid()):  # a worker of a sweep that was killed
                    folder.note("interrupted")
                    os._exit(1)
                sample = draw(cfg, embeddings, unit, sample)
                rows = [
                    {"run_id": id, **row} for row in measure(cfg, embeddings, sample, methods, tasks, progress=advance)
                ]
                folder.append(unit.name, rows)
                for logger in loggers:
                    logger.log(rows)
            table = folder.finish()
            for logger in loggers:
                logger.conclude(table)
        return Outcome(id, folder.path, False, table, record)


def _sessions(cfg: DictConfig, folder: Run, settings: dict[str, Any], facts: dict[str, Any]) -> list[Session]:
    about = RunFacts(folder.id, folder.status["attempt"], folder.path, settings, facts)
    return [build(node, f"logger.{name}")(about) for name, node in _items(cfg.get("logger"))]


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
        **{name: value for name, value in _flat("neighbors", cfg.neighbors).items() if name != "neighbors.k"},
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
    found: dict[str, Any] = {}
    for key, value in plain.items():
        name = f"{prefix}.{key}"
        if isinstance(value, dict):
            found |= _flat(name, value)
        elif not str(key).startswith("_") and isinstance(value, bool | int | float | str):
            found[name] = value
    return found


def _items(group: DictConfig | None) -> list[tuple[str, DictConfig]]:
    """Return the members of a config group by name; none if the group is absent."""
    return [] if not group else [(str(name), node) for name, node in group.items() if node]


@contextmanager
def _limit_threads(count: int | None) -> Iterator[None]:
    """Run compiled loops on `count` threads and matrix products on one: their last bits depend on the number."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(count or before, before))
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        numba.set_num_threads(before)
