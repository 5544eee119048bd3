"""From a config to rows of results: which samples, every method on each, measured by every task, copied by loggers."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig, ListConfig, OmegaConf
from threadpoolctl import threadpool_limits

from asbc.configs import build
from asbc.embeddings.store import Embeddings, fingerprint, stratified_sample
from asbc.evaluate.sample import Method, Sample
from asbc.evaluate.tasks import Task
from asbc.graph import SYMMETRIES
from asbc.kernels.threads import thread_count
from asbc.learn.labels import is_unlabeled
from asbc.progress import Progress
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Experiment, load_record, write_record
from asbc.runs.results import ALL, PER_NODE, Run, StoredRun, flat_settings, run_id
from asbc.storage import write_atomic
from asbc.validation import normalize, one_of, seed_number, whole_number
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


# Samples


class NothingToScore(ValueError):
    """All requested evaluations need labels, and the data have none that can be scored."""


def check_settings(cfg: DictConfig, methods: Mapping[str, Method], tasks: Mapping[str, Task]) -> None:
    """Raise a ValueError for the most common settings that cannot work with any data, before the data are read."""
    build(cfg.dimension, "dimension")
    if not methods or not tasks:
        raise ValueError("an experiment needs at least one method and one evaluation")
    if cfg.neighbors.get("k", cfg.k_cand) != cfg.k_cand:
        raise ValueError(
            f"neighbors.k follows k_cand; set k_cand instead. Got neighbors.k={cfg.neighbors.k} and k_cand={cfg.k_cand}"
        )
    if unknown := set(cfg.graph) - {"k_min", "symmetrize"}:
        raise ValueError(f"graph has no setting {', '.join(sorted(map(str, unknown)))}; it has k_min and symmetrize")
    whole_number(cfg.trials, "trials", 1)
    seed_number(cfg.seed)
    if cfg.threads is not None:
        whole_number(cfg.threads, "threads", 1)
    one_of(cfg.graph.symmetrize, "graph.symmetrize", SYMMETRIES)
    k = whole_number(cfg.k_cand, "k_cand", 1)
    for name, method in methods.items():
        try:
            if method.rule is not None:
                method.rule.check_parameters(k)
        except (TypeError, ValueError) as error:  # noqa: PERF203
            raise ValueError(f"the bandwidth of {name}: {error}") from error


def levels(samples_per_class: Any) -> list[int]:
    """Return the levels of `samples_per_class`, each once: integers of at least 1, and 0 for `all`.

    Examples
    --------
    >>> from asbc.runs.run import levels
    >>> levels([5, 20, "all"]), levels(10), levels("all")
    ([5, 20, 0], [10], [0])
    """
    several = isinstance(samples_per_class, list | tuple | ListConfig)
    wanted = list(samples_per_class) if several else [samples_per_class]
    found = [ALL if item == "all" else whole_number(item, "samples_per_class (or all)", 1) for item in wanted]
    return list(dict.fromkeys(found))


def own_levels(paper: Any, embeddings: Embeddings) -> list[int | str]:
    """Return the levels for custom data: `all`, plus the levels of the paper for which all classes have enough samples.

    A level that takes all samples is left to `all`.
    """
    if why_not_scored(embeddings):
        return ["all"]
    sizes = class_sizes(embeddings.labels)
    return [*(level for level in levels(paper) if level <= sizes.min() and level < sizes.max()), "all"]


def class_sizes(labels: NDArray[Any] | None) -> NDArray[np.int64]:
    """Return the samples of each class (c,), without the unlabelled ones."""
    if labels is None:
        return np.zeros(0, np.int64)
    return np.unique(labels[~is_unlabeled(labels)], return_counts=True)[1]


def why_not_scored(embeddings: Embeddings) -> str | None:
    """Return why predictions of labels cannot be scored; None if they can."""
    sizes = class_sizes(embeddings.labels)
    if not len(sizes):
        return f"{embeddings.name} has no labels"
    if len(sizes) == 1:
        gone = int(is_unlabeled(np.asarray(embeddings.labels)).sum())
        hint = f" ({gone} are -1, NaN, None or empty, which means no label)" if gone else ""
        return f"{embeddings.name} has labels of one class only{hint}"
    return f"{embeddings.name} has no two samples of one class" if sizes.max() < 2 else None


def scorable(embeddings: Embeddings, tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Return the tasks that work with these labels, and warn about those that do not."""
    why = why_not_scored(embeddings)
    kept = {name: task for name, task in tasks.items() if why is None or not task.needs_labels}
    gone = [name for name in tasks if name not in kept]
    if not kept:
        raise NothingToScore(
            f"{why}, and without labels there is no {', '.join(gone)}; run experiment=regimes, experiment=alignment, "
            "'evaluate=[health]' or asbc-explore"
        )
    if gone:
        log.warning("skipped, because %s: %s", why, ", ".join(gone))
    return kept


def plan(cfg: DictConfig, embeddings: Embeddings, tasks: Mapping[str, Task]) -> list[tuple[int, int]]:
    """Return level and trial of each sample of an experiment, after a check that each level can work.

    A level with too few nodes (at most `k_cand`) is skipped with a warning. Classes with fewer samples than the
    level give all they have, also with a warning.
    """
    wanted = levels(cfg.samples_per_class)
    kept = [ALL]
    if why_not_scored(embeddings) is None:
        sizes = class_sizes(embeddings.labels)
        unlabeled = len(embeddings) - int(sizes.sum())
        taken = {level: np.minimum(sizes, level) if level else sizes for level in wanted}
        for task in tasks.values():
            for classes in taken.values():
                task.check(classes)
        kept = [level for level in wanted if int(taken[level].sum()) + unlabeled > cfg.k_cand]
        small = [level or "all" for level in wanted if level not in kept]
        if not kept:
            raise ValueError(f"no samples_per_class of {small} gives more than k_cand={cfg.k_cand} nodes")
        if small:
            log.warning("samples_per_class %s skipped: too few nodes for k_cand=%d", small, cfg.k_cand)
        if unlabeled:
            log.info("%d of %d nodes have no label: in the graph, not scored", unlabeled, len(embeddings))
        for level in kept:
            if short := int((sizes < level).sum()):
                text = "%d of %d classes have fewer than %d samples and give all they have"
                log.warning(text, short, len(sizes), level)
    return [(level, trial) for level in kept for trial in range(cfg.trials)]


def draw(cfg: DictConfig, embeddings: Embeddings, level: int, trial: int, previous: Sample | None = None) -> Sample:
    """Draw one sample. Its seed depends on the trial alone: a trial's smaller samples are subsets of its larger ones.

    Nodes without a label are in every sample. With the cosine metric vectors are scaled to unit length here. A
    `previous` sample with the same nodes and level shares the results that do not depend on the seed.
    """
    seed = int(np.random.SeedSequence([int(cfg.seed), trial]).generate_state(1)[0])
    labels = None if embeddings.labels is None else np.asarray(embeddings.labels)
    if level == ALL or labels is None:
        nodes = np.arange(len(embeddings))
    else:
        chosen = stratified_sample(labels, level, seed=seed)
        nodes = np.union1d(chosen, np.flatnonzero(is_unlabeled(labels)))
    X = np.asarray(embeddings.vectors[nodes])
    sample = Sample(
        normalize(X) if cfg.neighbors.metric == "cosine" else X,
        None if labels is None else labels[nodes],
        nodes=nodes,
        total=len(embeddings),
        search=build(cfg.neighbors, "neighbors"),
        dimension=build(cfg.dimension, "dimension"),
        **cfg.graph,
        seed=seed,
        level=level,
        trial=trial,
    )
    if previous is not None and previous.level == level and np.array_equal(previous.nodes, nodes):
        sample.common = previous.common
    return sample


def level_in_words(level: int) -> str:
    """Return a level as text: "20 per class" or "all nodes"."""
    return f"{level} per class" if level else "all nodes"


# Loggers


class CsvLogger:
    """Write `results.csv` next to `results.parquet` when a run is finished: `logger=csv`.

    See Also
    --------
    WandbLogger : the same rows in Weights & Biases.

    Examples
    --------
    `conf/logger/csv.yaml` names it:

    >>> from hydra.utils import instantiate
    >>> type(instantiate({"_target_": "asbc.runs.CsvLogger"})).__name__
    'CsvLogger'
    """

    def complete(self, run: StoredRun) -> bool:
        """Whether everything that this logger writes of a finished run is there."""
        return (run.path / "results.csv").exists()

    def send(self, run: StoredRun, table: pd.DataFrame) -> None:
        """Write the rows of a finished run."""
        write_atomic(run.path / "results.csv", table.drop(columns=PER_NODE, errors="ignore").to_csv(index=False))


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
    cfg: DictConfig,
    *,
    group: str | None = None,
    overrides: Sequence[str] = (),
    typed: Sequence[str] = (),
    threads: int | None = None,
) -> Outcome:
    """Run one experiment, or the part of it that is missing.

    Parameters
    ----------
    cfg : DictConfig
        As composed from `conf/`.
    group : str, default=None
        Name of the sweep that the run is part of, for the loggers.
    overrides : sequence of str, default=()
        What was typed and differs between the jobs of the sweep, for the loggers.
    typed : sequence of str, default=()
        What was typed about the embeddings and the folder, for the commands that a report shows.
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
    name = str(cfg.name)
    record = load_record(cfg.get("record"), EXPERIMENTS.get(name, Experiment(name))).described(described, methods)
    embeddings: Embeddings = build(cfg.embedding, "embedding").load()
    if cfg.samples_per_class == "auto":  # set by embedding=files
        cfg = OmegaConf.merge(cfg, {"samples_per_class": own_levels(cfg.levels, embeddings)})  # type: ignore[assignment]
    tasks = scorable(embeddings, tasks)
    settings = settings_of(cfg)
    facts = {
        "experiment": name,
        "dataset": embeddings.name,
        "encoder": embeddings.encoder,
        "embedding": OmegaConf.to_container(cfg.embedding, resolve=True),
        "fingerprint": embeddings.fingerprint,
        "vectors": fingerprint(embeddings.vectors),
        "labelled": why_not_scored(embeddings) is None,
        "group": group,
        "overrides": list(overrides),
        "typed": list(typed),
        "tags": list(cfg.get("tags") or []),
    }
    id = run_id(settings, embeddings.fingerprint)
    with Run(Path(cfg.out) / "runs", id, settings, rerun=bool(cfg.rerun)) as folder:
        skipped = folder.finished
        done = set() if skipped else folder.begin(**facts)
        write_record(folder.path, record)  # titles and colors may have changed
        if skipped:
            table = folder.rows()
        else:
            with _limit_threads(threads):
                table = _compute(cfg, folder, done, embeddings, methods, tasks)
        # Group, tags and names are those of this command, also for a run that was finished before.
        status = {key: value for key, value in (folder.status | facts).items() if key != "settings"}
        stored = StoredRun(folder.path, status, settings, record)
        for logger in _build_all(cfg, "logger").values():
            try:
                if not (skipped and logger.complete(stored)):
                    logger.send(stored, table)
            except Exception as error:  # noqa: PERF203  (the rows are safe on disk)
                log.warning("%s failed: %s: %s", type(logger).__name__, type(error).__name__, error)
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
    units = {f"samples-{level:06d}_trial-{trial:03d}": (level, trial) for level, trial in plan(cfg, embeddings, tasks)}
    folder.note("running", units=len(units))
    scores = len(tasks) * len(methods)  # per unit
    progress = Progress(shown=bool(cfg.progress))
    parent = os.getppid() if multiprocessing.parent_process() else None
    sample: Sample | None = None
    with progress.step(str(cfg.name), len(units) * scores, len(done) * scores, unit="scores") as advance:
        for name, (level, trial) in units.items():
            if name in done:
                continue
            if parent not in (None, os.getppid()):  # a worker of a sweep that was killed
                folder.note("interrupted")
                os._exit(1)
            sample = draw(cfg, embeddings, level, trial, sample)
            rows = measure(cfg, embeddings, sample, methods, tasks, advance)
            folder.append(name, [{"run_id": folder.id, **row} for row in rows])
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
    advance: Callable[..., None],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one sample: every task on every method. CONTRIBUTING.md defines the words."""
    sizes = class_sizes(sample.labels)
    shared = {
        "experiment": str(cfg.name),
        "dataset": embeddings.name,
        "encoder": embeddings.encoder,
        "samples": sample.level,
        "trial": sample.trial,
        "nodes": len(sample.X),
        "total_nodes": sample.total,
        "classes": len(sizes),
        "unlabelled": len(sample.X) - int(sizes.sum()),
        "short_classes": int((sizes < sample.level).sum()),
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
                    scored, right = score.packed(sample.total)
                    yield {
                        **shared,
                        "method": score.method or name,
                        **(_describe(method, sample) if score.method is None else {"weights": method.kind}),
                        **options,
                        "level": score.level,
                        "metric": score.metric,
                        "value": float(score.value),
                        "seconds": score.seconds,
                        **score.more,
                        "scored": scored,
                        "right": right,
                    }
            except Exception:
                log.error("failed in evaluate.%s of %s, %s, trial %d", task_name, name, where, sample.trial)
                raise
            advance(1, f"trial {sample.trial + 1}, {where}, {task_name} {name}")


def _describe(method: Method, sample: Sample) -> dict[str, Any]:
    """Columns that describe a method, and the seconds of its search and of its graph."""
    rule = method.rule if method.weight_rule().uses_bandwidth else None
    return {
        "weights": method.kind,
        "sharpen": method.sharpen,
        **_parameters("weights", method.weights),
        "bandwidth": None if rule is None else type(rule).__name__,
        **_parameters("bandwidth", rule),
        "search_seconds": sample.search_seconds,
        "build_seconds": sample.seconds(method, graph=True),
    }


def _parameters(prefix: str, value: Any) -> dict[str, Any]:
    """Columns of the parameters of a rule, or of a function with some of its arguments given."""
    found = value.get_params(deep=False) if hasattr(value, "get_params") else getattr(value, "keywords", {})
    return {
        # Numbers as they are and the rest as text, so that a column never mixes types.
        f"{prefix}.{name}": item if isinstance(item, bool | int | float | None) else repr(item).strip("'")
        for name, item in found.items()
    }


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
