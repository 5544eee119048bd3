"""The paper on the bundled encoders: is a graph with a bandwidth per node better than kNN? `make demo`

Builds the graphs of the paper on the vectors of CIFAR-100 that come with asbc, measures how often the weighted vote of
a node's neighbours names its class (LOO) and how far a few labels carry (LP), and draws Figure 3.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paper import PLAIN_MARKS, chain_table, claims_table, curves, read_subjects, run_samples
from rich.console import Console

from asbc.report.figures import save

if __name__ == "__main__":
    console = Console(width=None if sys.stdout.isatty() else 120)
    # The paper's settings, so that the commands in README find these runs finished.
    subjects = read_subjects(run_samples("loo", sys.argv[1:]) + run_samples("lp", sys.argv[1:]))
    console.print(chain_table(subjects).rich())
    console.print(claims_table(subjects, PLAIN_MARKS).rich())
    print("Figure 3, leave-one-out accuracy against samples per class:")
    print(*save(curves(subjects, "loo"), Path("figures")), sep="\n")
    print("\nNext, the same on your own vectors and labels:")
    print("  .venv/bin/asbc experiment=loo embedding=files embedding.path=vectors.npy embedding.labels=labels.npy")
    print("Then one page of all that was run:")
    print("  .venv/bin/asbc-report outputs")
    print("And a map of any vectors, with labels or without:")
    print('  .venv/bin/pip install -e ".[explore]"')
    print("  .venv/bin/asbc-explore vectors.npy")
