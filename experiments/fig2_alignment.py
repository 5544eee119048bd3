"""Figure 2: effective rank against intrinsic dimension, each estimator in turn as the target.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import figures
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("alignment"):
        show(subject, figures.alignment(part))
