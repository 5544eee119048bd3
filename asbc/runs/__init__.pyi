"""Experiments: from a config to rows of results on disk. Interrupted runs resume."""

from .command import SweepSummary
from .record import Axis, Claim, Experiment, Figure, Table
from .results import ResultsError, collect, list_runs
from .run import CsvLogger
from .wandb import WandbLogger

__all__ = [
    "Axis",
    "Claim",
    "CsvLogger",
    "Experiment",
    "Figure",
    "ResultsError",
    "SweepSummary",
    "Table",
    "WandbLogger",
    "collect",
    "list_runs",
]
