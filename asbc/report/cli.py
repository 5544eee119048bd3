"""Reports: the public name of :mod:`asbc.report.command` for scripts and notebooks."""

from asbc.report.command import main, make_report

__all__ = ["main", "make_report"]
