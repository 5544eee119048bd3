"""Arguments and files that nobody means to give: each is refused in one line that names it."""

import numpy as np
import pytest

import asbc
from asbc.embeddings.store import stratified_sample
from asbc.evaluate.comparison import Bootstrap
from asbc.evaluate.tasks import spectral_clusters
from asbc.learn.labels import reveal

X = np.random.default_rng(0).normal(size=(40, 4))
Y = np.repeat(np.arange(4), 10)
NEIGHBORS = asbc.search_neighbors(X, 12)
INDICES, DISTANCES = NEIGHBORS.indices, NEIGHBORS.distances


@pytest.mark.parametrize("wrong", [1.5, -1, "x", True, 2**64])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("random_state", lambda seed: asbc.GraphBuilder(k_cand=12, random_state=seed).fit(X)),
        ("seed", lambda seed: asbc.dim_mst(X, NEIGHBORS, seed=seed)),
        ("seed", lambda seed: asbc.search_neighbors(X, 5, search="ivf", seed=seed)),
        ("seed", lambda seed: spectral_clusters(np.eye(40), 3, seed=seed)),
        ("seed", lambda seed: Bootstrap(seed=seed)),
    ],
)
def test_seeds_that_are_none(name, call, wrong):
    with pytest.raises(ValueError, match=rf"^{name} must be a whole number from 0 to .*; got {wrong!r}"):
        call(wrong)


@pytest.mark.parametrize("wrong", [1.5, -1, "x", True])
def test_seeds_of_draws(wrong):
    for draw in (lambda: reveal(Y, 2, seed=wrong), lambda: stratified_sample(Y, 2, seed=wrong)):
        with pytest.raises(ValueError, match=rf"^seed must be a .*; got {wrong!r}|^seed must be a .*, got {wrong!r}"):
            draw()


@pytest.mark.parametrize("wrong", [2**63, 1.5, 0, None])
def test_repetitions_that_cannot_be_made(wrong):
    for call in (lambda: asbc.dim_mst(X, NEIGHBORS, n_rep=wrong), lambda: asbc.GraphBuilder(n_rep=wrong).fit(X)):
        with pytest.raises(ValueError, match=rf"^n_rep must be a whole number from 1 to 100000; got {wrong}"):
            call()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (asbc.Neighbors(INDICES.astype(float), DISTANCES), "whole numbers as indices.* got .*float64"),
        (asbc.Neighbors(INDICES[:0], DISTANCES[:0]), r"got (\(0, 12\)|those of 0 nodes)"),
        (
            asbc.Neighbors(INDICES[:, :0], DISTANCES[:, :0]),
            r"(one 2-dimensional shape; got \(40, 0\)|at least k_cand=12)",
        ),
        (
            asbc.Neighbors(np.where(INDICES > 30, -1, INDICES), DISTANCES),
            "(indices of at least 0; row .* does not|at least k_cand=12 for every node)",
        ),
        (asbc.Neighbors(np.ma.masked_less(INDICES, 5), DISTANCES), "not be masked"),
    ],
)
def test_neighbours_that_are_none(given, message):
    for call in (
        lambda: asbc.to_graph(given, np.ones(INDICES.shape)),
        lambda: asbc.levina_bickel(given),
        lambda: asbc.GraphBuilder(k_cand=12, metric="euclidean").fit(X, neighbors=given),
    ):
        with pytest.raises((TypeError, ValueError), match=rf"^neighbors must .*{message}"):
            call()
    with pytest.raises((TypeError, ValueError), match=r"^neighbors must "):
        asbc.GraphBuilder(k_cand=12, metric="euclidean").fit(X, neighbors=(INDICES.astype(float), DISTANCES))
