"""Is a graph with a bandwidth per node better than kNN? `make demo` asks on a small data set.

Builds the graphs of the paper on scikit-learn's handwritten digits, or on your own vectors, and measures how often
the weighted vote of a node's neighbours names its class.
"""

from __future__ import annotations

import sys

from asbc.commands import run

if __name__ == "__main__":
    sys.argv = [sys.argv[0], "experiment=ablation", "evaluate=[loo,lp]", "samples_per_class=[100]", *sys.argv[1:]]
    run()
