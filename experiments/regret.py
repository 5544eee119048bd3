"""How far each rule is from the best bandwidth that labels could have tuned.

Any override of `asbc` may follow, for example `embedding=mocov2` or `trials=2`.
"""

from asbc.report import figures, tables
from asbc.report.exhibit import run, show

if __name__ == "__main__":
    for subject, part in run("regret"):
        show(subject, figures.regret(part), tables.regret(part))
