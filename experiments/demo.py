"""The main job on a sample of real embeddings: is a graph with a bandwidth per node better than kNN? `make demo`

Builds the graphs of the paper on the bundled sentences of CLINC150, or on your own vectors, measures how often the
weighted vote of a node's neighbours names its class and how far a few labels carry, and draws the latter.
"""

from __future__ import annotations

import sys
from pathlib import Path

from running import run

from asbc.report.figures import levels, save_print
from asbc.runs.record import find_record

SMALL = ["evaluate=[loo,lp]", "evaluate.lp.labels=[1,5,20]", "trials=3"]  # of the paper's six levels and five trials

if __name__ == "__main__":
    for subject, study in run("ablation", [*SMALL, *sys.argv[1:]]):
        print("\nThe figure, accuracy against labels per class:")
        drawing = levels(study, find_record("lp").figures[0])
        print(*save_print(drawing, Path("figures") / subject.slug), sep="\n")
    print("\nNext, the same on your own vectors and labels:")
    print("  .venv/bin/asbc experiment=loo embedding=files embedding.path=vectors.npy embedding.labels=labels.npy")
    print("Then one page of all that was run:")
    print("  .venv/bin/asbc-report outputs")
    print("And a map of any vectors, with labels or without:")
    print('  .venv/bin/pip install -e ".[explore]"')
    print("  .venv/bin/asbc-explore vectors.npy")
