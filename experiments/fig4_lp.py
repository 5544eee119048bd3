"""Figure 4: accuracy of label propagation against labels per class.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import figures, tables
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("lp"):
        show(subject, figures.lp(part), tables.accuracy(part, "lp"))
