"""The main job on a sample of real embeddings: is a graph with a bandwidth per node better than kNN? `make demo`

Builds the graphs of the paper on the bundled sentences of CLINC150, or on your own vectors, and measures how often
the weighted vote of a node's neighbours names its class.
"""

from __future__ import annotations

import sys

from asbc.commands import run

if __name__ == "__main__":
    sys.argv = [sys.argv[0], "experiment=ablation", "evaluate=[loo,lp]", *sys.argv[1:]]
    run()
