"""The name of :mod:`asbc.report.command` before version 0.2."""

from asbc.report.command import main, make_report

__all__ = ["main", "make_report"]
