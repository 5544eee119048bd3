"""The W&B workspace as code: what a sweep looks like, one section per encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.extras import needed
from asbc.runs.results import collect

if TYPE_CHECKING:
    import pandas as pd

# Swept settings by their names in a W&B config, and what to call the axis.
CURVES = {"gamma": "gamma", "k_cand": "k_cand", "n_grid": "n_grid"}
CHAIN = ("knn", "knn_sigma", "knn_sigma_alpha", "nnk_fixed", "nnk_sigma", "nnk_sigma_alpha")


def workspace(folder: Path, entity: str, project: str) -> Any:
    """A workspace for the runs under a folder; `.save()` sends it.

    Parameters
    ----------
    folder : Path
    entity, project : str

    Returns
    -------
    wandb_workspaces.workspaces.Workspace
    """
    with needed("the dashboard", "wandb"):
        import wandb_workspaces.workspaces as ws

    table = collect(folder, finished_only=True)
    sections = []
    for encoder, rows in table.groupby("encoder"):
        panels = _curves(str(encoder), rows) + _bars(str(encoder), rows)
        if panels:
            sections.append(ws.Section(name=str(encoder), panels=panels, is_open=True))
    return ws.Workspace(entity=entity, project=project, name="asbc", sections=sections)


def _curves(encoder: str, rows: pd.DataFrame) -> list[Any]:
    """A metric of a method against a swept setting, a panel each."""
    import wandb_workspaces.reports.v2 as wr

    panels = []
    for experiment, setting in CURVES.items():
        part = rows[rows["experiment"] == experiment]
        for metric in [m for m in ("loo", "rank_median") if m in set(part["metric"])]:
            methods = [m for m in CHAIN if ((part["method"] == m) & (part["metric"] == metric)).any()]
            panels += [
                wr.ScatterPlot(
                    title=f"{metric} of {method} against {setting}",
                    x=wr.Config(setting),
                    y=wr.SummaryMetric(f"{encoder}/{metric}/{method}"),
                )
                for method in methods
            ]
    return panels


def _bars(encoder: str, rows: pd.DataFrame) -> list[Any]:
    """The chain of methods side by side, one panel per metric."""
    import wandb_workspaces.reports.v2 as wr

    part = rows[rows["experiment"] == "ablation"]
    panels = []
    for metric in [m for m in ("loo", "lp", "nmi", "ari") if m in set(part["metric"])]:
        methods = [m for m in CHAIN if (part["method"] == m).any()]
        panels.append(
            wr.BarPlot(
                title=f"ablation: {metric}",
                metrics=[wr.SummaryMetric(f"{encoder}/{metric}/{method}") for method in methods],
            )
        )
    return panels
