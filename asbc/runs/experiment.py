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
import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from threadpoolctl import threadpool_limits

from asbc.embeddings.arrays import Embeddings
from asbc.embeddings.stratify import stratified_sample
from asbc.evaluate.hits import pack_hits
from asbc.evaluate.method import Method
from asbc.evaluate.sample import Sample
from asbc.evaluate.tasks import Score, Task
from asbc.runs.folder import Run
from asbc.runs.identity import run_id
from asbc.runs.loggers import Mirror, RunFacts, Session
from asbc.validation import normalize
from asbc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

# Keys of a config that decide where and how it runs and not what comes out, so they are no part of a run's id. The
# embeddings are among them because the hash of their contents stands for them: a copied file gives the same run.
NOT_SETTINGS = ("embedding", "logger", "out", "rerun", "mix_versions", "threads", "progress", "stages")


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


@dataclass(frozen=True)
class Unit:
    """The smallest piece of work whose rows are kept together: one subsample."""

    samples: int
    trial: int

    @property
    def name(self) -> str:
        return f"samples-{self.samples:06d}_trial-{self.trial:03d}"


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
    embeddings: Embeddings = instantiate(cfg.embedding).load()
    settings = settings_of(cfg)
    id = run_id(settings, embeddings.fingerprint)
    facts = {
        "experiment": str(cfg.name),
        "dataset": embeddings.name,
        "encoder": embeddings.encoder,
        "fingerprint": embeddings.fingerprint,
        "version": __version__,
        "group": group,
    }
    runs = Path(cfg.out) / "runs"
    told = {**settings, "data": facts}
    with Run(runs, id, told, rerun=bool(cfg.rerun), mix_versions=bool(cfg.mix_versions)) as folder:
        if folder.finished:
            return _finished_before(cfg, folder, settings, facts)
        done = folder.begin(**facts)
        methods: dict[str, Method] = {name: instantiate(node) for name, node in _items(cfg.get("methods"))}
        tasks: dict[str, Task] = {name: instantiate(node) for name, node in _items(cfg.get("evaluate"))}
        units = plan(cfg, embeddings, methods, tasks)
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
    return {str(key): value for key, value in plain.items() if key not in NOT_SETTINGS}


def plan(
    cfg: DictConfig, embeddings: Embeddings, methods: Mapping[str, Method], tasks: Mapping[str, Task]
) -> list[Unit]:
    """The subsamples of an experiment; settings that cannot work are refused here, before any work.

    A number of samples per class that gives too few nodes (no more than `k_cand`) is left out with a warning.
    """
    if not methods or not tasks:
        raise ValueError("an experiment needs at least one method and one evaluation; got none")
    if cfg.trials < 1 or len(cfg.samples_per_class) == 0:
        raise ValueError(
            "trials must be at least 1 and samples_per_class must not be empty; "
            f"got {cfg.trials} and {list(cfg.samples_per_class)}"
        )
    if cfg.neighbors.get("k", cfg.k_cand) != cfg.k_cand:
        raise ValueError(
            f"neighbors.k follows k_cand and is not set by itself; got neighbors.k={cfg.neighbors.k} and "
            f"k_cand={cfg.k_cand}: give k_cand={cfg.neighbors.k}"
        )
    if embeddings.labels is None:
        blind = [name for name, task in tasks.items() if task.needs_labels]
        if blind:
            raise ValueError(
                f"{embeddings.name} has no labels, and these evaluations need them: {', '.join(blind)}; "
                "without labels there are: health, alignment, regimes"
            )
        return [Unit(0, trial) for trial in range(cfg.trials)]
    classes, counts = np.unique(embeddings.labels, return_counts=True)
    units: list[Unit] = []
    small: list[int] = []
    for samples in dict.fromkeys(int(s) for s in cfg.samples_per_class):
        for task in tasks.values():
            task.check(samples)
        if samples > counts.min():
            raise ValueError(
                f"samples_per_class has {samples}, but class {classes[counts.argmin()]} of {embeddings.name} has "
                f"only {counts.min()} samples"
            )
        if samples * len(classes) <= cfg.k_cand:
            small.append(samples)
            continue
        units += [Unit(samples, trial) for trial in range(cfg.trials)]
    if not units:
        raise ValueError(
            f"no samples_per_class of {list(cfg.samples_per_class)} gives more than k_cand={cfg.k_cand} "
            f"nodes with {len(classes)} classes"
        )
    if small:
        log.warning("samples_per_class %s left out: too few nodes for k_cand=%d", small, cfg.k_cand)
    return units


def draw(cfg: DictConfig, embeddings: Embeddings, unit: Unit) -> Sample:
    """One subsample. Its seed depends on the trial alone, so a trial's smaller subsamples are parts of its larger ones.

    The metric is that of `conf/neighbors`, cosine unless told otherwise: then vectors are scaled to unit length here,
    for the search and for all that follows.
    """
    seed = int(np.random.SeedSequence([int(cfg.seed), unit.trial]).generate_state(1)[0])
    if unit.samples:
        assert embeddings.labels is not None
        nodes = stratified_sample(embeddings.labels, unit.samples, seed=seed)
    else:
        nodes = np.arange(len(embeddings))
    X = np.asarray(embeddings.vectors[nodes])
    return Sample(
        normalize(X) if cfg.neighbors.metric == "cosine" else X,
        None if embeddings.labels is None else np.asarray(embeddings.labels)[nodes],
        nodes=nodes,
        total=len(embeddings),
        search=instantiate(cfg.neighbors),
        dimension=instantiate(cfg.dimension),
        k_min=cfg.graph.k_min,
        symmetrize=cfg.graph.symmetrize,
        seed=seed,
        level=unit.samples,
        trial=unit.trial,
    )


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
        "seed": int(cfg.seed),
        "k_cand": int(cfg.k_cand),
        **{name: value for name, value in _flat("neighbors", cfg.neighbors).items() if name != "neighbors.k"},
        **_flat("dimension", cfg.dimension),
        **_flat("graph", cfg.graph),
    }
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
                log.error(
                    "failed in evaluate.%s of %s, %d per class, trial %d", task_name, name, sample.level, sample.trial
                )
                raise
            if progress is not None:
                progress(1, f"trial {sample.trial + 1}, {sample.level} per class, {task_name} {name}")


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
    if isinstance(method.weights, str):
        rule = method.bandwidth if method.weights != "uniform" else None
        columns["bandwidth"] = None if rule is None else type(rule).__name__
        if rule is not None:
            params = rule.get_params(deep=False)
            columns.update({f"bandwidth.{key}": _plain(value) for key, value in params.items()})
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
