"""How much the fineness of the bandwidth's grid matters.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import tables
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("n_grid"):
        show(subject, tables.n_grid(part))
