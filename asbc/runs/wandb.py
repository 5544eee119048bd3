"""Weights & Biases: the logger, dashboards, and `asbc-upload`, which sends finished runs later, each once."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asbc.evaluate.comparison import Bootstrap
from asbc.evaluate.tasks import PER_SAMPLE
from asbc.extras import MissingExtraError, needed
from asbc.runs.record import METHOD_COLORS, METHOD_TITLES, Experiment
from asbc.runs.results import (
    ALL,
    CANDIDATES,
    PER_NODE,
    RESULTS,
    StoredRun,
    flat_settings,
    headline,
    join_rows,
    last_level,
    list_runs,
    open_run,
    summary,
    varying_settings,
)
from asbc.storage import DamagedFileError, read_json, write_atomic, write_json

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")
TIMEOUT = 10.0  # seconds until W&B counts as unreachable; its own library would try for minutes
MAX_TAG, MAX_NAME = 64, 128  # characters; W&B refuses longer ones
COMPLETE = "complete.txt"  # in a folder of W&B's files, once all of them are written
SAVED = "workspaces.json"  # in the folder of the runs: the addresses, so that a second call updates them
# First parts of keys that are not in the names of runs: where results go, and what the experiment and encoder imply.
UNNAMED = {
    "experiment", "embedding", "logger", "out", "rerun", "threads", "progress", "tags", "record", "hydra",
    "hparams_search", "optimized_metric",
}  # fmt: skip


@dataclass(frozen=True)
class WandbLogger:
    """Copy finished runs to Weights & Biases: one W&B run per job, one group per sweep. `logger=wandb`.

    The history has one row per level: the mean over trials by ``metric/method``, and
    the ends of its 95% bootstrap interval by ``metric/method/low`` and ``/high``. The summary has the printed numbers.

    Parameters
    ----------
    project : str, default="asbc"
        Where the runs appear in W&B.
    entity : str, default=None
        User or team in W&B; None for that of the key.
    tags : sequence of str, default=()
        In addition to experiment, data set, encoder and the `tags` of the run.
    mode : {"online", "offline"}, default=None
        None for the value of WANDB_MODE; without it, online if there is a key and offline otherwise.
    dashboard : bool, default=False
        Save a workspace for each experiment at the end of the run or sweep, as `asbc-upload --dashboard` does.

    Examples
    --------
    `asbc 'logger=[csv,wandb]' logger.wandb.mode=offline` creates

    >>> from asbc.runs import WandbLogger
    >>> WandbLogger(project="asbc", mode="offline").resolved_mode()
    'offline'
    """

    project: str = "asbc"
    entity: str | None = None
    tags: tuple[str, ...] = ()
    mode: str | None = None
    dashboard: bool = False

    def __post_init__(self) -> None:
        if self.mode not in (None, "online", "offline"):
            raise ValueError(f"mode must be online, offline or null; got {self.mode!r}")

    def resolved_mode(self) -> str:
        """Return `mode`, or what applies on this machine if it is None."""
        return self.mode or os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")

    def complete(self, run: StoredRun) -> bool:
        """Whether W&B has a finished run, or offline its files are written."""
        return uploaded(run.path) or (self.resolved_mode() == "offline" and written(run) is not None)

    def send(self, run: StoredRun, table: pd.DataFrame) -> None:
        """Send the rows of a finished run; offline, write W&B's files."""
        with needed("logger=wandb", "wandb"):
            import wandb

        mode: Any = self.resolved_mode()
        if mode == "online":
            check_connection()
        facts = run.status
        tags = [facts["experiment"], facts["dataset"], facts["encoder"], *facts.get("tags", ()), *self.tags]
        looks = {"titles": run.record.titles, "colors": run.record.colors}
        with wandb.init(
            id=wandb_id(run),
            name=run_name(run)[:MAX_NAME],
            project=self.project,
            entity=self.entity,
            group=facts.get("group"),
            job_type=run.experiment,
            tags=sorted({str(tag)[:MAX_TAG] for tag in tags}),
            config=wandb_config(run) | {key: value for key, value in looks.items() if value},
            dir=str(run.path),
            mode=mode,
            resume="never",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        ) as sent:
            rows = history(table, run.record)
            for axis in dict.fromkeys(next(iter(row)) for row in rows):
                sent.define_metric(axis, hidden=True, summary="none")
                for key in dict.fromkeys(key for row in rows if axis in row for key in row if key != axis):
                    # W&B's summary has the last row, which is that of the largest samples or of the most labels.
                    sent.define_metric(key, step_metric=axis, summary="none" if axis == "scale" else None)
            for row in rows:
                sent.log(row)
            sent.summary.update(summary(table, run.record))
            shown = table.drop(columns=PER_NODE, errors="ignore")
            nullable = [name for name, kind in shown.dtypes.items() if str(kind) in ("Int64", "boolean")]
            sent.log({"results": wandb.Table(dataframe=shown.astype(dict.fromkeys(nullable, "float64")))})
            artifact = wandb.Artifact(f"results-{run.id}", type="results", metadata=run.status)
            artifact.add_file(str(run.path / RESULTS))
            sent.log_artifact(artifact)
        if mode == "online":
            write_atomic(run.path / "uploaded.txt", f"{sent.id}\n")
        elif mode == "offline":
            folder = Path(sent.dir).parent
            write_atomic(folder / COMPLETE, "")  # only now: a kill before leaves a part of the files
            log.info("W&B is offline: written to %s; send it with: wandb sync %s", folder, shlex.quote(str(folder)))


def has_key() -> bool:
    """Whether there is a key to log in with: in the environment, or where `wandb login` writes it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    with suppress(ImportError):
        from requests.utils import get_netrc_auth  # W&B installs it

        return get_netrc_auth(address()) is not None
    return False


def address() -> str:
    """Return the address of W&B."""
    return os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")


def check_connection() -> None:
    """Raise a ConnectionError if nothing answers at W&B's address; a refusal is an answer."""
    import requests

    try:
        requests.head(address(), timeout=TIMEOUT)
    except requests.RequestException as error:
        raise ConnectionError(f"{address()}: {type(error).__name__}") from None


def wandb_id(run: StoredRun) -> str:
    """Return the id of a run in W&B, one per attempt: a second one must not write into that of a killed one."""
    return f"{run.id}-{run.status['attempt']}"


def wandb_config(run: StoredRun) -> dict[str, Any]:
    """Return the config for W&B: all settings by the names they have on the command line."""
    bandwidth = run.settings.get("bandwidth", {})
    return {
        **run.settings,
        **{key: run.status[key] for key in ("experiment", "encoder", "dataset")},
        "embedding": run.status.get("embedding"),
        "method": list(run.settings.get("methods", {})),
        **{key: bandwidth[key] for key in ("gamma", "n_grid") if key in bandwidth},
        "run_id": run.id,
    }


def run_name(run: StoredRun) -> str:
    """Return the run's name in W&B: experiment, encoder, and what was typed about the settings.

    Examples
    --------
    >>> from pathlib import Path
    >>> from asbc.runs.experiments import EXPERIMENTS
    >>> from asbc.runs.results import StoredRun
    >>> from asbc.runs.wandb import run_name
    >>> typed = ["experiment=loo", "embedding=simclr", "gamma=0.5", "k_cand=15", "out=results"]
    >>> status = {"experiment": "loo", "encoder": "simclr", "overrides": typed}
    >>> run_name(StoredRun(Path(), status, {}, EXPERIMENTS["loo"]))
    'loo simclr gamma=0.5 k_cand=15'
    """
    words = []
    for override in run.status.get("overrides") or ():
        key = override.lstrip("+~").partition("=")[0]
        if key in ("embedding.dataset", "embedding.path"):
            words.append(f"dataset={run.status['dataset']}")
        elif key.partition(".")[0].partition("/")[0] not in UNNAMED:
            words.append(override.lstrip("+"))
    words.sort(key=lambda word: "[" in word)  # W&B cuts long names off, and lists are rarely swept
    return " ".join(dict.fromkeys([run.experiment, str(run.status["encoder"]), *words]))


def points(table: pd.DataFrame, record: Experiment) -> pd.DataFrame:
    """Return the rows as points of curves: `axis`, `x`, `key` (``metric/method``), `metric`, `trial`, `value` and more.

    Samples per class, labels per class and scales are separate axes. For all but the first, only the largest samples
    count. All nodes are placed at their mean number per class, after all other levels.
    """
    rows = table[~table["method"].str.startswith(CANDIDATES)].reset_index(drop=True)
    scale = rows["scale"] if "scale" in rows else rows["value"] * float("nan")
    axis = rows["metric"].map(lambda name: axis_name(record.metric(name).level)).where(scale.isna(), "scale")
    mean = (rows["nodes"] // rows["classes"].clip(lower=1)).clip(lower=rows["samples"].max() + 1)
    x = rows["level"].where((rows["level"] != ALL) | (axis != axis_name(PER_SAMPLE)), mean)
    key = rows["metric"] + "/" + rows["method"]
    for column in ("target", "estimator"):
        if column in rows:
            key += ("/" + rows[column].astype("string")).fillna("").astype(str)
    found = rows[["metric", "trial", "value"]].assign(axis=axis, x=x.astype(float).where(scale.isna(), scale), key=key)
    found["all_nodes"] = rows["nodes"] == rows["total_nodes"]
    return found[(axis == axis_name(PER_SAMPLE)) | (rows["samples"] == last_level(rows))]


def axis_name(unit: str) -> str:
    """Return the key of an axis in the history, such as samples_per_class."""
    return re.sub(r"\W+", "_", unit.replace("%", "percent")).strip("_")


def history(table: pd.DataFrame, record: Experiment) -> list[dict[str, float]]:
    """Return the history for W&B: for each level the means over trials, and their intervals where trials differ."""
    found: list[dict[str, float]] = []
    group: Any
    for group, part in points(table, record).groupby(["axis", "x"], sort=True):
        wide = part.pivot_table("value", "trial", "key", sort=False)
        row: dict[Any, float] = {group[0]: float(group[1]), **wide.mean().to_dict()}
        # With all nodes, trials are only seeds, unless they differ in the labels that are revealed or moved.
        only_seeds = part["all_nodes"].all() and group[0] in (axis_name(PER_SAMPLE), "scale")
        if len(wide) > 1 and not only_seeds:
            draws = Bootstrap().trials(len(wide)) / len(wide)
            low, high = np.quantile(draws @ wide.to_numpy(), (0.025, 0.975), axis=0)
            for end, values in (("low", low), ("high", high)):
                row |= {f"{key}/{end}": value for key, value in zip(wide, values.tolist(), strict=True)}
        found.append({key: value for key, value in row.items() if value == value})
    return found


def uploaded(path: Path) -> bool:
    """Whether W&B has a run."""
    return (path / "uploaded.txt").exists()


def written(run: StoredRun) -> Path | None:
    """Return the folder of W&B's files of a run, for `wandb sync`; None if this attempt has none."""
    found = (run.path / "wandb").glob(f"offline-run-*-{wandb_id(run)}/{COMPLETE}")
    return next((path.parent for path in found), None)


# Dashboards


@dataclass(frozen=True)
class Dashboard:
    """The panels of one experiment."""

    record: Experiment
    sections: dict[str, list[Any]]  # panels by title
    columns: list[str]  # of the table of runs, as W&B names them: the settings that vary, then the printed numbers

    @property
    def only(self) -> str:
        """The filter that keeps the runs of this experiment."""
        return f'Config("experiment") == {self.record.name!r}'


def dashboards(folder: Path) -> list[Dashboard]:
    """Return the panels of each experiment that has finished runs under a folder."""
    with needed("the dashboard", "wandb"):
        import wandb_workspaces  # noqa: F401

    groups: dict[str, list[StoredRun]] = {}
    for path, status in list_runs(folder):
        if status["state"] == "finished":
            groups.setdefault(str(status["experiment"]), []).append(open_run(path))
    return [_dashboard(runs) for runs in groups.values()]


def _dashboard(runs: list[StoredRun]) -> Dashboard:
    records = [run.record for run in runs]
    titles, colors = ({k: v for each in records for k, v in getattr(each, f).items()} for f in ("titles", "colors"))
    record = replace(records[-1], titles=METHOD_TITLES | titles, colors=METHOD_COLORS | colors)
    rows = join_rows([run.rows for run in runs if run.rows is not None])
    configs = [flat_settings(wandb_config(run)) for run in runs]
    varying = _varying(configs)
    curves = points(rows, record)
    printed = [column.metric.name for column in headline(rows, record)]
    drawn = [metric for figure in record.figures for metric in figure.metrics]
    drawn += [metric for metric in curves.query("axis == 'scale'")["metric"].unique() if metric.endswith("_median")]
    wanted = dict.fromkeys((*record.headline, *drawn, *printed))
    metrics = [metric for metric in wanted if metric in set(curves["metric"])]
    encoders = {wandb_id(run): str(run.status["encoder"]) for run in runs}
    sections = {"Levels": _level_panels(record, curves, metrics, varying, encoders)}
    for key in varying:
        number = all(isinstance(config[key], int | float) for config in configs)
        sections[key] = _setting_panels(record, rows, metrics, key, number)
    sections["All runs"] = _run_panels(rows, metrics, varying)
    first = [key for metric in metrics[:1] for key in _keys(rows, metric)]
    # W&B writes the setting bandwidth.gamma as config:bandwidth.value.gamma.
    columns = [re.sub(r"^([^.]+)", r"config:\1.value", key) for key in varying] + [f"summary:{key}" for key in first]
    return Dashboard(record, {title: panels for title, panels in sections.items() if panels}, columns)


def _varying(configs: list[dict[str, Any]]) -> list[str]:
    """Return the settings in which runs differ; those of the embedding change with the encoder."""
    shared = set.intersection(*(set(config) for config in configs)) - {"run_id", "method"}
    if len({config["encoder"] for config in configs}) > 1:
        shared = {key for key in shared if not key.startswith("embedding.")}
    return list(varying_settings([{key: config[key] for key in configs[0] if key in shared} for config in configs]))


def _level_panels(
    record: Experiment, curves: pd.DataFrame, metrics: list[str], varying: list[str], encoders: dict[str, str]
) -> list[Any]:
    """Metrics against their levels: a line per method and encoder, with the titles and colors of the report.

    Runs that differ in other settings are averaged, and the title says so; these lines have W&B's own names and colors,
    because W&B takes others only for lines of single runs. A metric with one level has a bar per method, if no setting
    varies. `encoders` are those of the runs, by their ids in W&B.
    """
    import wandb_workspaces.reports.v2 as wr

    averaged = set(varying) - {"encoder"}
    grouped: dict[str, Any] = {}
    if averaged:
        grouped = {"groupby": wr.Config("encoder"), "groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"}
    end = f", mean over {', '.join(key for key in varying if key in averaged)}" if averaged else ""
    panels: list[Any] = []
    for metric in metrics:
        own = curves[curves["metric"] == metric]
        keys = own["key"].drop_duplicates().tolist()
        axis, title = str(own["axis"].iloc[0]), record.metric(metric).title
        looks: dict[str, Any] = {"line_titles": {}, "line_colors": {}}
        for run, encoder in encoders.items() if not averaged else ():
            for key in keys:
                name = _method(record, key) + (f", {encoder}" if "encoder" in varying else "")
                looks["line_titles"][f"{run}:{key}"] = name
                if color := record.colors.get(key.split("/")[1]):
                    looks["line_colors"][f"{run}:{key}"] = color
        if own["x"].nunique() < 2:
            if not varying:
                panels.append(wr.BarPlot(title=title, metrics=[*map(wr.SummaryMetric, keys)], **looks))
            continue
        words = axis.replace("_", " ")
        shared: dict[str, Any] = {"x": axis, "title_x": words, "title_y": title, **grouped, **looks}
        panels.append(wr.LinePlot(title=f"{title} against {words}{end}", y=keys, **shared))
    return panels


def _setting_panels(record: Experiment, rows: pd.DataFrame, metrics: list[str], key: str, number: bool) -> list[Any]:
    """Metrics against a setting: points where it is a number, bars otherwise. The first metric shows all methods."""
    import wandb_workspaces.reports.v2 as wr

    panels: list[Any] = []
    for metric in metrics:
        title, keys = record.metric(metric).title, _keys(rows, metric)
        if not number:
            bars = wr.BarPlot(title=f"{title} by {key}", metrics=[*map(wr.SummaryMetric, keys)], groupby=wr.Config(key))
            panels.append(bars)
            continue
        for each in keys if metric == metrics[0] else [_main(keys)]:
            name = f"{title} against {key}, {_method(record, each)}"
            panels.append(wr.ScatterPlot(title=name, x=wr.Config(key), y=wr.SummaryMetric(each)))
    return panels


def _run_panels(rows: pd.DataFrame, metrics: list[str], varying: list[str]) -> list[Any]:
    """A table of all runs, and lines through the settings that vary to the first metric."""
    import wandb_workspaces.reports.v2 as wr

    panels: list[Any] = [wr.RunComparer(diff_only=True, layout=wr.Layout(w=24, h=9))]
    if len(varying) > 1 and metrics:
        score = _main(_keys(rows, metrics[0]))
        axes: list[Any] = [*map(wr.Config, varying), wr.SummaryMetric(score)]
        columns = [wr.ParallelCoordinatesPlotColumn(axis) for axis in axes]
        panels.append(wr.ParallelCoordinatesPlot(title=f"{score} by settings", columns=columns))
    return panels


def _keys(rows: pd.DataFrame, metric: str) -> list[str]:
    """Keys of a metric in the summary, one per method."""
    names = rows.loc[rows["metric"] == metric, "method"].drop_duplicates()
    return [f"{metric}/{name}" for name in names if not name.startswith(CANDIDATES)]


def _main(keys: list[str]) -> str:
    """The key of NNK-sigma if it was run, of the last method otherwise."""
    return next((key for key in keys if key.endswith("/nnk_sigma")), keys[-1])


def _method(record: Experiment, key: str) -> str:
    name, *more = key.split("/")[1:]
    return ", ".join([record.titles.get(name, name), *more])


def workspace(dashboard: Dashboard, entity: str, project: str) -> Any:
    """Return the W&B workspace of one experiment; `.save()` sends it."""
    import wandb_workspaces.workspaces as ws

    return ws.Workspace(
        entity=entity,
        project=project,
        name=f"asbc {dashboard.record.name}",
        sections=[ws.Section(name=title, panels=panels, is_open=True) for title, panels in dashboard.sections.items()],
        runset_settings=ws.RunsetSettings(filters=dashboard.only, pinned_columns=dashboard.columns),
    )


def report(found: list[Dashboard], entity: str, project: str) -> Any:
    """Return a W&B report with the panels of all experiments; `.save()` sends it."""
    import wandb_workspaces.reports.v2 as wr

    blocks: list[Any] = []
    for dashboard in found:
        runs = wr.Runset(entity=entity, project=project, name=dashboard.record.name, filters=dashboard.only)
        blocks += [wr.H1(text=dashboard.record.heading), wr.P(text=dashboard.record.question)]
        for title, panels in dashboard.sections.items():
            blocks += [wr.H2(text=title), wr.PanelGrid(runsets=[runs], panels=panels)]
    return wr.Report(entity=entity, project=project, title="asbc", blocks=blocks)


def save_workspaces(folder: Path, logger: WandbLogger, *, with_report: bool = False) -> list[str]:
    """Save a workspace for each experiment under a folder, and return their addresses.

    With `with_report`, also save a report with the same panels.
    """
    found = dashboards(folder)
    import wandb
    import wandb_workspaces.workspaces as ws

    entity = logger.entity or str(wandb.Api().default_entity)
    try:
        saved = read_json(folder / SAVED)
    except (FileNotFoundError, DamagedFileError):
        saved = {}
    addresses = []
    for dashboard in found:
        new = workspace(dashboard, entity, logger.project)
        place = f"{entity}/{logger.project}/{dashboard.record.name}"
        try:
            view = ws.Workspace.from_url(saved[place])
            view.sections, view.runset_settings = new.sections, new.runset_settings
        except (KeyError, ValueError, wandb.errors.Error):  # not saved yet, or deleted in W&B
            view = new
        saved[place] = view.save().url
        addresses.append(saved[place])
    write_json(folder / SAVED, saved)
    return addresses + ([report(found, entity, logger.project).save().url] if with_report and found else [])


def save_if_online(folder: Path, logger: WandbLogger) -> None:
    """Save the workspaces after a run or a sweep, `logger.wandb.dashboard=true`. A failure is a warning."""
    if logger.resolved_mode() != "online":
        log.warning("W&B is offline: no dashboard; asbc-upload %s --dashboard saves it later", folder)
        return
    try:
        for address in save_workspaces(folder, logger):
            log.info("W&B workspace: %s", address)
    except Exception as error:
        log.warning("the W&B dashboard was not saved: %s: %s", type(error).__name__, error)


# asbc-upload


def upload_runs(folder: Path, logger: WandbLogger) -> tuple[Counter[str], list[Path]]:
    """Send every finished run under a folder that W&B does not have yet; offline, write its files.

    Returns the numbers of runs that were `sent` now, were `there` before or are `unfinished`, and offline the folders
    for `wandb sync`.
    """
    import wandb

    counts: Counter[str] = Counter()
    folders: list[Path] = []
    for path, status in list_runs(folder):
        run = open_run(path)
        if status["state"] != "finished" or run.rows is None:
            counts["unfinished"] += 1
        elif logger.complete(run):
            counts["there"] += 1
        else:
            try:
                logger.send(run, run.rows)
                counts["sent"] += 1
            except wandb.errors.Error as error:
                # W&B refuses the same id twice: a kill came before the run was recorded as sent.
                if "already exists" not in str(error):
                    raise
                log.warning("%s: W&B already has %s; to send it again, delete it there", path, wandb_id(run))
                counts["there"] += 1
        if logger.resolved_mode() == "offline" and not uploaded(path) and (files := written(run)):
            folders.append(files)
    return counts, folders


def main() -> None:
    """`asbc-upload`: send finished runs to W&B, each once."""
    parser = argparse.ArgumentParser(prog="asbc-upload", description="Send finished runs to W&B, each once.")
    parser.add_argument("folder", type=Path, help="outputs, a results folder, or one run")
    parser.add_argument("--project", default="asbc", help="W&B project, asbc by default")
    parser.add_argument("--entity", default=None, help="W&B user or team, your default one by default")
    parser.add_argument("--tag", action="append", default=[], help="may be given several times")
    parser.add_argument("--offline", action="store_true", help="write W&B's files without sending them")
    parser.add_argument("--dashboard", action="store_true", help="also save a workspace per experiment (online)")
    parser.add_argument(
        "--report", action="store_true", help="also save workspaces and a W&B report with their panels (online)"
    )
    options = parser.parse_args()
    import wandb

    if options.offline and (options.dashboard or options.report):
        parser.exit(2, "asbc-upload: --dashboard and --report need a connection; --offline cannot write them\n")
    if not options.offline and not has_key():
        parser.exit(2, "asbc-upload: W&B has no key; run `wandb login` first, or use --offline\n")
    logger = WandbLogger(
        options.project, options.entity, tuple(options.tag), "offline" if options.offline else "online"
    )
    try:
        if not options.offline:
            check_connection()
        counts, folders = upload_runs(options.folder, logger)
        done = "written, not sent" if options.offline else "sent"
        print(f"{counts['sent']} run(s) {done}, {counts['there']} already there, {counts['unfinished']} not finished")
        if folders:
            print("send them later by the same command without --offline, or these files with:")
            for folder in folders:
                print(f"wandb sync {shlex.quote(str(folder))}")
        if options.dashboard or options.report:
            print("\n".join(save_workspaces(options.folder, logger, with_report=options.report)))
    except (MissingExtraError, ValueError, RuntimeError) as error:
        parser.exit(1, f"asbc-upload: {error}\n")
    except (wandb.errors.Error, OSError) as error:
        why = " ".join(str(error).split())
        parser.exit(
            1, f"asbc-upload: W&B did not answer ({why}); the same command tries again, --offline writes files\n"
        )
