"""From a config to rows of results: every method on every subsample, measured by every task."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from threadpoolctl import threadpool_limits

from asbc.embeddings.store import Embeddings, fingerprint
from asbc.evaluate.hits import pack_hits
from asbc.evaluate.method import Method
from asbc.evaluate.sample import Sample
from asbc.evaluate.tasks import Score, Task
from asbc.runs.folder import Run
from asbc.runs.identity import run_id
from asbc.runs.levels import (
    check_settings,
    draw,
    level_in_words,
    made,
    own_levels,
    plan,
    sample_columns,
    scorable,
    why_not_scored,
)
from asbc.runs.loggers import Mirror, RunFacts, Session
from asbc.runs.record import load_record, write_record
from asbc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

# Keys of a config that decide where and how it runs and not what comes out, so they are no part of a run's id. The
# embeddings are among them because the hash of their contents stands for them: a copied file gives the same run.
NOT_SETTINGS = (
    "embedding", "logger", "out", "rerun", "mix_versions", "threads", "progress", "stages", "levels", "own_levels",
    "record",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes
    ----------
    run_id : str
        Name of the run, from its settings and data.
    path : Path
        The run's folder.
    skipped : bool
        Whether it was finished before, so that nothing was done.
    table : DataFrame
        All its rows.
    version : str
        The version of asbc that finished it; "unknown" where it left none.
    """

    run_id: str
    path: Path
    skipped: bool
    table: pd.DataFrame
    version: str = __version__


def run(cfg: DictConfig, *, group: str | None = None, threads: int | None = None) -> Outcome:
    """Run one experiment, or what is left of it.

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
    methods: dict[str, Method] = {name: made(node, f"methods.{name}") for name, node in _items(cfg.get("methods"))}
    tasks: dict[str, Task] = {name: made(node, f"evaluate.{name}") for name, node in _items(cfg.get("evaluate"))}
    check_settings(cfg, methods, tasks)
    described = [metric for task in tasks.values() for metric in task.metrics]
    record = load_record(cfg.get("record"), str(cfg.name)).described(described)
    embeddings: Embeddings = instantiate(cfg.embedding).load()
    if cfg.samples_per_class == "auto":  # what embedding=files says
        cfg = OmegaConf.merge(cfg, {"samples_per_class": own_levels(cfg.levels, embeddings)})  # type: ignore[assignment]
    tasks = scorable(embeddings, tasks)
    settings = settings_of(cfg)
    id = run_id(settings, embeddings.fingerprint)
    facts = {
        "experiment": str(cfg.name),
        "dataset": embeddings.name,
        "encoder": embeddings.encoder,
        "fingerprint": embeddings.fingerprint,
        "vectors": fingerprint(embeddings.vectors),
        "labelled": why_not_scored(embeddings) is None,
        "version": __version__,
        "group": group,
    }
    runs = Path(cfg.out) / "runs"
    told = {**settings, "data": facts}
    with Run(runs, id, told, rerun=bool(cfg.rerun), mix_versions=bool(cfg.mix_versions)) as folder:
        if folder.finished:
            return _finished_before(cfg, folder, settings, facts)
        done = folder.begin(**facts)
        write_record(folder.path, record)
        units = plan(cfg, embeddings, tasks)
        folder.note("running", units=len(units))
        with ExitStack() as stack:
            stack.enter_context(_threads(threads))
            loggers = [stack.enter_context(Mirror(session)) for session in _sessions(cfg, folder, settings, facts)]
            if done:
                for logger in loggers:
                    logger.log(folder.rows())
            steps = len(units) * len(tasks) * len(methods)
            progress = stack.enter_context(_progress(str(cfg.name), steps, bool(cfg.progress)))
            for unit in units:
                if unit.name in done:
                    progress(len(tasks) * len(methods), "")
                    continue
                sample = draw(cfg, embeddings, unit)
                rows = [
                    {"run_id": id, **row} for row in measure(cfg, embeddings, sample, methods, tasks, progress=progress)
                ]
                folder.append(unit.name, rows)
                for logger in loggers:
                    logger.log(rows)
            table = folder.finish()
            for logger in loggers:
                logger.conclude(table)
        return Outcome(id, folder.path, False, table)


def _finished_before(cfg: DictConfig, folder: Run, settings: dict[str, Any], facts: dict[str, Any]) -> Outcome:
    """A run whose rows are all there. A kill may have come just before it was noted, or before the loggers had it."""
    version = str(folder.status.get("version", "unknown"))
    table = folder.finish(**facts | {"version": version}) if folder.status["state"] != "finished" else folder.rows()
    for session in _sessions(cfg, folder, settings, facts):
        if session.lacks():
            with Mirror(session) as logger:
                logger.conclude(table)
    return Outcome(folder.id, folder.path, True, table, version)


def _sessions(cfg: DictConfig, folder: Run, settings: dict[str, Any], facts: dict[str, Any]) -> list[Session]:
    told = RunFacts(folder.id, folder.status["attempt"], folder.path, settings, facts)
    return [instantiate(node)(told) for _, node in _items(cfg.get("logger"))]


def settings_of(cfg: DictConfig) -> dict[str, Any]:
    """The part of a config that decides what comes out, resolved to plain values."""
    plain = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    settings = {str(key): value for key, value in plain.items() if key not in NOT_SETTINGS}
    wanted = settings["samples_per_class"]
    return settings | {"samples_per_class": wanted if isinstance(wanted, list) else [wanted]}  # one number is a list


def measure(
    cfg: DictConfig,
    embeddings: Embeddings,
    sample: Sample,
    methods: Mapping[str, Method],
    tasks: Mapping[str, Task],
    *,
    progress: Any = None,
) -> Iterator[dict[str, Any]]:
    """Rows of one subsample: every task on every method."""
    shared = {
        "experiment": str(cfg.name),
        "dataset": embeddings.name,
        "encoder": embeddings.encoder,
        "samples": sample.level,
        "trial": sample.trial,
        **sample_columns(sample),
        "seed": int(cfg.seed),
        "k_cand": int(cfg.k_cand),
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
    """Columns that say what the method's graph cost on this subsample, and how much of that was the search."""
    return {"search_seconds": sample.search_seconds, "build_seconds": sample.seconds(method, graph=True)}


def _describe(method: Method, own: bool) -> dict[str, Any]:
    """Columns that say what a method is. Candidates that a task made up (not `own`) have no bandwidth rule to tell."""
    columns: dict[str, Any] = {"weights": method.kind}
    if not own:
        return columns
    columns["sharpen"] = method.sharpen
    rule = method.bandwidth if method.weight_rule().uses_bandwidth else None
    columns["bandwidth"] = None if rule is None else type(rule).__name__
    if rule is not None:
        columns.update({f"bandwidth.{key}": _plain(value) for key, value in rule.get_params(deep=False).items()})
    return columns


def _plain(value: Any) -> Any:
    """Numbers stay numbers; the rest becomes text, so that a column never mixes kinds."""
    return value if isinstance(value, bool | int | float) or value is None else repr(value).strip("'")


def _flat(prefix: str, node: DictConfig) -> dict[str, Any]:
    plain = OmegaConf.to_container(node, resolve=True)
    assert isinstance(plain, dict)
    return {
        ".".join([prefix, str(key)]): value
        for key, value in plain.items()
        if not str(key).startswith("_") and isinstance(value, bool | int | float | str | None)
    }


def _items(group: DictConfig | None) -> list[tuple[str, DictConfig]]:
    """Leaves of a config group by name; none where the group is absent or `none`."""
    return [] if not group else [(str(name), node) for name, node in group.items() if node]


@contextmanager
def _threads(wanted: int | None) -> Iterator[None]:
    """Compiled loops on `wanted` threads; matrix products on one: their last bits depend on how many there are."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(wanted or before, before))
    try:
        with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
            warnings.simplefilter("default")
            yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def _progress(name: str, steps: int, shown: bool) -> Iterator[Any]:
    """A bar with the time left; nothing where the output is not a terminal."""
    if not shown:
        yield lambda count, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[label]}", style="bold", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", style="dim", markup=False),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=steps, label=name)
        yield lambda count, text: bar.update(task, advance=count, description=text)
