"""Small builds for the fault tests: what is built, and how it is seen that nothing is lost."""

from pathlib import Path

import numpy as np

import asbc
from asbc.outofcore.driver import build_graph
from tests.outofcore.small import files_of

N = 120
# By name: the builder's settings, and those of the search. Together they write every kind of file that a build has.
KINDS = {
    "exact": ({}, {"search": "exact"}),
    "lists, cosine": (
        {"metric": "cosine", "weights": "gaussian", "bandwidth": asbc.DensityNormalized(), "dimension": "two_nn"},
        {"search": "ivf", "search_options": {"n_lists": 5, "n_probe": 4}},
    ),
    "hnsw": ({"sharpen": True, "k_min": 0}, {"search": "hnsw", "search_options": {"ef_search": 64}}),
}


def write_vectors(folder):
    """The path of a small file of vectors."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6, 5))[rng.integers(0, 6, N)] * 3 + rng.normal(size=(N, 5))
    np.save(Path(folder, "x.npy"), X.astype(np.float32))
    return Path(folder, "x.npy")


def build(path, folder, kind):
    """Build a graph, or go on with one."""
    settings, search = KINDS[kind]
    return build_graph(path, folder, asbc.GraphBuilder(k_cand=12, **settings), block=70, **search)


def built_files(path, folder, kind):
    """Go on with a build until it is finished; all its files."""
    build(path, folder, kind)
    assert not list(Path(folder).rglob(".*")), "temporary files are left"
    assert not Path(folder, "scratch").exists()
    return files_of(folder)
