"""Workspaces and a report in W&B, built from what varies between the runs under a folder."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.extras import needed
from asbc.runs.command import headline
from asbc.runs.record import METHOD_COLORS, METHOD_TITLES, Experiment
from asbc.runs.results import CANDIDATES, StoredRun, flat_settings, join_rows, list_runs, open_run, varying_settings
from asbc.runs.wandb import WandbLogger, points, wandb_config, wandb_id
from asbc.storage import DamagedFileError, read_json, write_json

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

SAVED = "workspaces.json"  # in the folder of the runs: the addresses, so that a second call updates them


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
    columns = [*(_column(key) for key in varying), *(f"summary:{key}" for key in first)]
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
        if "encoder" in varying:
            main = _main(keys)
            name = f"{title} against {words}, {_method(record, main)}: encoders{end}"
            panels.append(wr.LinePlot(title=name, y=[main], **shared | {"line_colors": None}))
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


def _column(key: str) -> str:
    first, dot, rest = key.partition(".")
    return f"config:{first}.value{dot}{rest}"


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


def save(folder: Path, logger: WandbLogger, *, with_report: bool = False) -> list[str]:
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
        for address in save(folder, logger):
            log.info("W&B workspace: %s", address)
    except Exception as error:
        log.warning("the W&B dashboard was not saved: %s: %s", type(error).__name__, error)
