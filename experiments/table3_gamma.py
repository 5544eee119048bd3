"""Table 3: how much the rank wanted, gamma times the dimension, matters.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import figures, tables
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("gamma"):
        show(subject, figures.gamma(part), tables.gamma(part))
