"""Workspaces and a report in W&B, built from what varies between the runs under a folder."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.extras import needed
from asbc.runs.record import Experiment, read_record
from asbc.runs.results import (
    flat_settings,
    join_rows,
    list_runs,
    read_run,
    varying_settings,
)
from asbc.runs.terminal import CANDIDATES, headline
from asbc.runs.wandb import WandbLogger, points, stored_facts, wandb_config
from asbc.storage import DamagedFileError, read_json, write_json

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

SAVED = "workspaces.json"  # in the folder of the runs: the addresses, so that a second call updates them


@dataclass(frozen=True)
class Dashboard:
    """The panels of one experiment.

    Attributes
    ----------
    record : Experiment
    sections : dict of str to list of panels
        By title.
    columns : list of str
        Of the table of runs, as W&B names them: the settings that vary, then the printed numbers.
    """

    record: Experiment
    sections: dict[str, list[Any]]
    columns: list[str]

    @property
    def only(self) -> list[Any]:
        """The filter that keeps the runs of this experiment."""
        from wandb_workspaces import expr

        return [expr.Config("experiment") == self.record.name]


def dashboards(folder: Path) -> list[Dashboard]:
    """Return the panels of each experiment that has finished runs under a folder."""
    with needed("the dashboard", "wandb"):
        import wandb_workspaces  # noqa: F401

    groups: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path, status in list_runs(folder):
        if status["state"] == "finished":
            groups.setdefault(str(status["experiment"]), []).append((path, status))
    return [_dashboard(name, group) for name, group in groups.items()]


def _dashboard(name: str, group: list[tuple[Path, dict[str, Any]]]) -> Dashboard:
    record = read_record(group[-1][0], name)
    rows = join_rows([frame for path, _ in group for frame in read_run(path)])
    configs = []
    for path, status in group:
        configs.append(flat_settings(wandb_config(stored_facts(path, status))))
    shared = set.intersection(*(set(config) for config in configs))
    hidden = {"run_id", "method"}
    if len({config["encoder"] for config in configs}) > 1:  # its other settings change with the encoder
        hidden |= {key for key in shared if key.startswith("embedding.")}
    keys = [key for key in configs[0] if key in shared - hidden]
    varying = list(varying_settings([{key: config[key] for key in keys} for config in configs]))
    numbers = {key for key in varying if all(isinstance(config[key], int | float) for config in configs)}
    curves = points(rows, record)
    printed = [column.metric.name for column in headline(rows, record)]
    drawn = [metric for figure in record.figures for metric in figure.metrics]
    drawn += [metric for metric in curves.query("axis == 'scale'")["metric"].unique() if metric.endswith("_median")]
    wanted = dict.fromkeys((*record.headline, *drawn, *printed))
    metrics = [metric for metric in wanted if metric in set(curves["metric"])]
    sections = {
        "Levels": _level_panels(record, curves, metrics, varying),
        **{key: _setting_panels(record, rows, metrics, key, key in numbers) for key in varying},
        "All runs": _run_panels(rows, metrics, varying),
    }
    first = [f"{metric}/{method}" for metric in metrics[:1] for method in _methods(rows, metric)]
    columns = [*(_column(key) for key in varying), *(f"summary:{key}" for key in first)]
    return Dashboard(record, {title: panels for title, panels in sections.items() if panels}, columns)


def _level_panels(record: Experiment, curves: pd.DataFrame, metrics: list[str], varying: list[str]) -> list[Any]:
    """Metrics against their levels: a line per method and encoder, averaged over runs that differ in other settings.

    A metric with one level has a bar per method, if no setting varies.
    """
    import wandb_workspaces.reports.v2 as wr

    panels: list[Any] = []
    for metric in metrics:
        own = curves[curves["metric"] == metric]
        keys = own["key"].drop_duplicates().tolist()
        axis, title = str(own["axis"].iloc[0]), record.metric(metric).title
        if own["x"].nunique() < 2:
            if not varying:
                panels.append(wr.BarPlot(title=title, metrics=[*map(wr.SummaryMetric, keys)]))
            continue
        words = axis.replace("_", " ")
        shared: dict[str, Any] = {
            "x": axis,
            "title_x": words,
            "title_y": title,
            "groupby": wr.Config("encoder"),
            "groupby_aggfunc": "mean",
            "groupby_rangefunc": "minmax",
        }
        panels.append(wr.LinePlot(title=f"{title} against {words}", y=keys, **shared))
        if "encoder" in varying:
            panels += [
                wr.LinePlot(title=f"{title} against {words}, {key.partition('/')[2]}: encoders", y=[key], **shared)
                for key in _main(keys)
            ]
    return panels


def _setting_panels(record: Experiment, rows: pd.DataFrame, metrics: list[str], key: str, number: bool) -> list[Any]:
    """Metrics against a setting: points where it is a number, bars otherwise. The first metric shows all methods."""
    import wandb_workspaces.reports.v2 as wr

    panels: list[Any] = []
    for metric in metrics:
        title = record.metric(metric).title
        keys = [f"{metric}/{method}" for method in _methods(rows, metric)]
        if not number:
            bars = wr.BarPlot(title=f"{title} by {key}", metrics=[*map(wr.SummaryMetric, keys)], groupby=wr.Config(key))
            panels.append(bars)
            continue
        panels += [
            wr.ScatterPlot(
                title=f"{title} against {key}, {each.partition('/')[2]}", x=wr.Config(key), y=wr.SummaryMetric(each)
            )
            for each in (keys if metric == metrics[0] else _main(keys))
        ]
    return panels


def _run_panels(rows: pd.DataFrame, metrics: list[str], varying: list[str]) -> list[Any]:
    """A table of all runs, and lines through the settings that vary to the first metric."""
    import wandb_workspaces.reports.v2 as wr

    panels: list[Any] = [wr.RunComparer(diff_only=True, layout=wr.Layout(w=24, h=9))]
    if len(varying) > 1 and metrics:
        score = _main([f"{metrics[0]}/{method}" for method in _methods(rows, metrics[0])])
        axes: list[Any] = [*map(wr.Config, varying), *map(wr.SummaryMetric, score)]
        columns = [wr.ParallelCoordinatesPlotColumn(axis) for axis in axes]
        panels.append(wr.ParallelCoordinatesPlot(title=f"{score[0]} by settings", columns=columns))
    return panels


def _methods(rows: pd.DataFrame, metric: str) -> list[str]:
    names = rows.loc[rows["metric"] == metric, "method"].drop_duplicates()
    return [name for name in names if not name.startswith(CANDIDATES)]


def _main(keys: list[str]) -> list[str]:
    """The key of NNK-sigma if it was run, of the last method otherwise."""
    return [next((key for key in keys if key.endswith("/nnk_sigma")), keys[-1])]


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

    Parameters
    ----------
    folder : Path
    logger : WandbLogger
        Where in W&B the runs are.
    with_report : bool, default=False
        Also save a report with the same panels.

    Returns
    -------
    list of str
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
