"""Experiments, from a config to rows of results on disk: they go on where they were stopped."""

from asbc.runs.loggers import CsvLogger
from asbc.runs.record import Axis, Claim, Experiment, Figure, Table
from asbc.runs.summary import SweepSummary
from asbc.runs.wandb_logger import WandbLogger

__all__ = ["Axis", "Claim", "CsvLogger", "Experiment", "Figure", "SweepSummary", "Table", "WandbLogger"]
