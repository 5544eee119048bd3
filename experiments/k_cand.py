"""How much the number of candidate neighbours matters.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import tables
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("k_cand"):
        show(subject, tables.k_cand(part))
