"""The one pipeline: the same rows, whichever steps are known before, and in blocks of any size."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

import asbc
from asbc.dimension import Dimension
from asbc.neighbors import types as neighbors_module
from asbc.rows import Rows, solve_rows, survey_rows

RULES = {
    "spectral": asbc.SpectralBandwidth(),
    "self_tuning": asbc.SelfTuning(),
    "perplexity": asbc.Perplexity(),
    "median_spectral": asbc.Fixed("median_spectral"),
    "log_log": asbc.LogLog(),
    "density": asbc.DensityNormalized(asbc.SpectralBandwidth()),
}
LOCAL = [name for name, rule in RULES.items() if rule.local]


def assert_same(found, wanted):
    for name in ("dimension", "weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    names = [field.name for field in fields(asbc.BandwidthChoice) if field.name != "kernels"]
    for name in (*names, "effective_rank", "slope", "objective"):
        values = (getattr(rows.choice, name) for rows in (found, wanted))
        np.testing.assert_array_equal(*values, err_msg=name)


@pytest.fixture(scope="module")
def whole(geometry):
    """Rows of every rule, all steps worked out in one call, by (rule, weights)."""
    X, neighbors, _ = geometry
    made = {}

    def solve(name, weights):
        if (name, weights) not in made:
            made[name, weights] = solve_rows(
                X, neighbors, dimension=Dimension("mst"), bandwidth=RULES[name], weights=weights, seed=3
            )
        return made[name, weights]

    return solve


@pytest.mark.parametrize("weights", ["gaussian", "nnk"])
@pytest.mark.parametrize("name", RULES)
def test_the_steps_are_those_of_the_public_functions(geometry, whole, name, weights):
    X, neighbors, _ = geometry
    rows = whole(name, weights).completed()
    dimension = asbc.dim_mst(X, neighbors, seed=3)
    np.testing.assert_array_equal(rows.dimension, dimension)
    np.testing.assert_array_equal(rows.choice.sigma, RULES[name].select(X, neighbors, dimension).sigma)
    builder = asbc.GraphBuilder(weights=weights, bandwidth=RULES[name], random_state=3, metric="euclidean").fit(X)
    np.testing.assert_array_equal(asbc.to_graph(neighbors, rows.weights).toarray(), builder.graph_.toarray())


@pytest.mark.parametrize("weights", ["gaussian", "nnk"])
@pytest.mark.parametrize("name", RULES)
def test_steps_given_as_values_equal_steps_worked_out(geometry, whole, name, weights):
    X, neighbors, _ = geometry
    wanted = whole(name, weights)
    common = {"weights": weights, "seed": 3}
    known_dimension = solve_rows(X, neighbors, dimension=wanted.dimension, bandwidth=RULES[name], **common)
    assert_same(known_dimension, wanted)
    known_choice = solve_rows(X, neighbors, dimension=wanted.dimension, bandwidth=wanted.choice, **common)
    assert_same(known_choice, wanted)
    choice_alone = solve_rows(X, neighbors, bandwidth=wanted.choice, **common)
    np.testing.assert_array_equal(choice_alone.weights, wanted.weights)


@pytest.mark.parametrize("name", RULES)
def test_distances_at_hand_make_vectors_unnecessary(geometry, whole, name):
    X, neighbors, _ = geometry
    shared = neighbors_module.with_pairs(X, neighbors)
    rows = solve_rows(None, shared, dimension=Dimension("mst"), bandwidth=RULES[name], weights="nnk", seed=3)
    assert_same(rows, whole(name, "nnk"))


@pytest.mark.parametrize("name", LOCAL)
def test_a_block_of_nodes_gets_the_bits_it_gets_in_the_whole(geometry, whole, name):
    X, neighbors, _ = geometry
    wanted = whole(name, "nnk")
    for rows in (slice(0, 1), slice(17, 101), slice(200, 240)):
        part = solve_rows(
            X,
            neighbors.rows(rows.start, rows.stop),
            dimension=Dimension("mst"),
            bandwidth=RULES[name],
            weights="nnk",
            seed=3,
        )
        np.testing.assert_array_equal(part.dimension, wanted.dimension[rows])
        np.testing.assert_array_equal(part.choice.sigma, wanted.choice.sigma[rows])
        np.testing.assert_array_equal(part.weights, wanted.weights[rows])


@pytest.mark.parametrize("name", RULES)
def test_fewer_nodes_at_a_time_give_the_same_bits(geometry, whole, monkeypatch, name):
    X, neighbors, _ = geometry
    wanted = whole(name, "nnk")
    monkeypatch.setattr(neighbors_module, "MOST_PAIRS", 7 * 30**2 // 2)  # seven nodes at a time
    monkeypatch.setattr("asbc.rows.SHARED_BYTES", 0)  # nothing is kept from step to step
    found = solve_rows(X, neighbors, dimension=Dimension("mst"), bandwidth=RULES[name], weights="nnk", seed=3)
    assert_same(found, wanted)


@pytest.mark.parametrize("name", [name for name in RULES if name not in LOCAL])
def test_a_rule_that_needs_all_nodes_is_resolved_from_blocks(geometry, whole, name):
    """By hand, as a build does it: summaries of blocks, joined, until the rule looks at nodes one by one."""
    X, neighbors, _ = geometry
    wanted = whole(name, "nnk")
    cuts = [0, 50, 51, 180, 240]
    rule = RULES[name]
    while not rule.local:
        parts = [survey_rows(X, neighbors.rows(a, b), rule, wanted.dimension[a:b]) for a, b in itertools.pairwise(cuts)]
        rule = rule.resolve({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})
    found = solve_rows(X, neighbors, dimension=wanted.dimension, bandwidth=rule, weights="nnk", seed=3)
    np.testing.assert_array_equal(found.choice.sigma, wanted.choice.sigma)
    np.testing.assert_array_equal(found.weights, wanted.weights)


def test_an_estimate_that_needs_all_nodes_is_resolved_too(geometry):
    X, neighbors, _ = geometry
    rows = solve_rows(X, neighbors, dimension=Dimension("two_nn"))
    np.testing.assert_array_equal(rows.dimension, asbc.two_nn(neighbors))
    assert rows.choice is None and rows.weights is None


@pytest.mark.parametrize("weights", ["gaussian", "nnk"])
@pytest.mark.parametrize("name", RULES)
def test_queries_get_rows_from_what_was_fitted(geometry, whole, name, weights):
    """Queries that are rows of X, a little moved: in one call, and one by one."""
    X, _, _ = geometry
    fitted = whole(name, weights).completed().choice
    queries = X[::40] + 1e-3
    found = asbc.search_neighbors(X, 30, queries=queries)
    options = {"dimension": Dimension("mst"), "bandwidth": RULES[name], "weights": weights, "fitted": fitted}
    every = solve_rows(X, found, **options, seed=3)
    assert every.weights.shape == (6, 30) and (every.weights >= 0).all() and every.weights.any(axis=1).all()
    for row in range(6):
        alone = solve_rows(X, found.rows(row, row + 1), **options, seed=3)
        np.testing.assert_allclose(alone.choice.sigma, every.choice.sigma[row], rtol=1e-12)
    if name in ("median_spectral", "log_log"):  # one bandwidth for all, also for those who come later
        np.testing.assert_array_equal(every.choice.sigma, fitted.sigma[0])


def test_uniform_weights_need_nothing_else(geometry):
    _, neighbors, _ = geometry
    rows = solve_rows(None, neighbors, weights="uniform")
    assert (rows.weights == rows.weights[0, 0]).all() and rows.weights[0, 0] > 0
    assert rows.dimension is None and rows.choice is None


def test_constant_nodes_are_filled_and_told_once_all_nodes_are_there():
    X = np.r_[np.ones((40, 3)), np.random.default_rng(0).normal(size=(60, 3)) + 5]
    neighbors = asbc.search_neighbors(X, 30)
    rows = solve_rows(
        X, neighbors, dimension=Dimension("mst"), bandwidth=asbc.SpectralBandwidth(), weights="nnk"
    )  # no warning yet: a block cannot know
    assert rows.constant.tolist() == [True] * 40 + [False] * 60
    with pytest.warns(asbc.ConstantNeighborhoodWarning, match="40 of 100 nodes"):
        whole = rows.completed()
    assert (whole.choice.sigma[:40] == np.median(rows.choice.sigma[40:])).all()
    assert (whole.choice.sigma[40:] == rows.choice.sigma[40:]).all()


def test_empty_rows_are_told_once_all_nodes_are_there(geometry):
    X, neighbors, dimension = geometry
    rows = solve_rows(X, neighbors, dimension=dimension, bandwidth=asbc.Fixed(1e-4), weights="gaussian")
    with pytest.warns(asbc.EmptyRowWarning):
        rows.completed()
    assert replace(rows, weights=None).completed().weights is None
    assert Rows().completed() == Rows()
