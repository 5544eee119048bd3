"""All rules for the bandwidth (Table 1 and ours), and other libraries' weights.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import tables
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("selectors"):
        show(subject, tables.selectors(part))
