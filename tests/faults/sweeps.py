"""A small sweep for the fault tests: two runs with two units each, as small as it can be."""

import sys

import numpy as np


def write_words(folder):
    """Write vectors and labels to a folder; the words of a sweep over them, without ``out=``."""
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.normal(size=(40, 3)) + np.repeat(np.eye(4, 3), 10, axis=0))
    np.save(folder / "y.npy", np.repeat(np.arange(4), 10))
    return [
        "-m", "seed=1,2", "k_cand=5", "samples_per_class=[4]", "trials=2", "method=[knn]", "progress=false",
        "embedding=files", f"embedding.path={folder / 'x.npy'}", f"embedding.labels={folder / 'y.npy'}",
    ]  # fmt: skip


def sweep(words, out):
    """The command, in a process that may be killed."""
    from asbc.runs import command

    sys.argv = ["asbc", *words, f"out={out}"]
    command.main()
