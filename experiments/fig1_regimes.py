"""Figure 1: rank, slope and condition of the local kernels from a narrow to a wide bandwidth.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import figures
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("regimes"):
        show(subject, figures.regimes(part))
