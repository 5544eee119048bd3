"""The chain of methods, each one step beyond the last, on every task.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import tables
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("ablation"):
        show(subject, tables.ablation(part), tables.steps(part))
