"""Experiments, from a config to rows of results on disk: they go on where they were stopped."""

from .loggers import CsvLogger
from .record import Axis, Claim, Experiment, Figure, Table
from .summary import SweepSummary
from .wandb_logger import WandbLogger

__all__ = ["Axis", "Claim", "CsvLogger", "Experiment", "Figure", "SweepSummary", "Table", "WandbLogger"]
