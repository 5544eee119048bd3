"""Experiments, from a config to rows of results on disk: they go on where they were stopped."""

from asbc.runs.loggers import CsvLogger
from asbc.runs.summary import SweepSummary
from asbc.runs.wandb_logger import WandbLogger

__all__ = ["CsvLogger", "SweepSummary", "WandbLogger"]
