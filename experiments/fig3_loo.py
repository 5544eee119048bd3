"""Figure 3: leave-one-out accuracy against samples per class.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import figures, tables
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("loo"):
        show(subject, figures.loo(part), tables.accuracy(part, "loo"))
