"""Experiments that resume: from a config to rows of results."""

from asbc.runs.loggers import CsvLogger
from asbc.runs.summary import SweepSummary
from asbc.runs.wandb_logger import WandbLogger

__all__ = ["CsvLogger", "SweepSummary", "WandbLogger"]
