"""Results of experiments as pandas tables: the public names of :mod:`asbc.runs.results`."""

from asbc.extras import needed

with needed("asbc.results", "experiments"):
    from asbc.runs.results import ResultsError, collect, read_rows, runs

__all__ = ["ResultsError", "collect", "read_rows", "runs"]
