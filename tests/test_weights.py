from functools import partial

import numpy as np
import pytest

import asbc
from asbc.evaluate import Method, Sample
from tests import twins


@pytest.fixture(scope="module")
def choice(geometry):
    return asbc.SpectralBandwidth().select(*geometry)


def test_uniform_and_gaussian(geometry, choice):
    _, neighbors, _ = geometry
    assert (asbc.uniform_weights(neighbors) == 1).all()
    expected = np.exp(-(neighbors.distances**2) / (2 * choice.sigma[:, None] ** 2))
    np.testing.assert_allclose(asbc.gaussian_weights(neighbors, choice.sigma), expected)
    s = choice.sigma
    mutual = np.exp(-(neighbors.distances**2) / (2 * s[:, None] * s[neighbors.indices]))
    np.testing.assert_allclose(asbc.gaussian_weights(neighbors, s, neighbor_sigma=s), mutual)


@pytest.mark.parametrize("factor", [0.1, 1.0, 5.0])
def test_nnk_is_optimal_on_every_node(geometry, choice, factor):
    X, neighbors, _ = geometry
    sigma = factor * choice.sigma
    W = asbc.nnk_weights(X, neighbors, sigma, k_min=0)
    for i in range(neighbors.n):
        K, b = twins.nnk_problem(X, neighbors.indices[i], neighbors.distances[i], sigma[i])
        assert twins.kkt_residual(K, b, W[i]) < 1e-8
        assert twins.nnk_objective(K, b, W[i]) <= twins.nnk_objective(K, b, twins.nnk(K, b)) + 1e-8


@pytest.mark.parametrize("seed", [5, 21, 30, 33])
def test_nnk_is_optimal_among_near_duplicates(seed):
    """Neighbours that differ by the rounding of single precision: kernel rows all but dependent."""
    rng = np.random.default_rng(seed)
    d, jitter = int(rng.integers(1, 30)), 10 ** rng.uniform(-8, -6.5)
    sigma = 10 ** rng.uniform(-0.3, 1.0) * np.sqrt(d / 8)
    X = np.repeat(rng.normal(size=(60, d)), 4, axis=0)
    X += jitter * rng.normal(size=X.shape)
    neighbors = asbc.search_neighbors(X, 15)
    W = asbc.nnk_weights(X, neighbors, sigma, k_min=0)
    for i in range(neighbors.n):
        K, b = twins.nnk_problem(X, neighbors.indices[i], neighbors.distances[i], sigma)
        assert twins.kkt_residual(K, b, W[i]) < 1e-8


def test_k_min_adds_the_nearest_with_the_weight_left_unexplained(geometry, choice):
    X, neighbors, _ = geometry
    sigma = 3 * choice.sigma
    bare = asbc.nnk_weights(X, neighbors, sigma, k_min=0)
    full = asbc.nnk_weights(X, neighbors, sigma, k_min=12)
    assert ((bare > 0).sum(axis=1) < 12).any()
    assert ((full > 0).sum(axis=1) >= 12).all()
    kernel = asbc.gaussian_weights(neighbors, sigma)
    wanted = [twins.add_nearest(b, w, 12) for b, w in zip(kernel, bare, strict=True)]
    np.testing.assert_allclose(full, wanted, rtol=1e-9, atol=1e-15)
    assert np.array_equal(full[bare > 0], bare[bare > 0])


@pytest.mark.parametrize("weights", ["nnk", asbc.NNK(solver="reference")])
def test_an_exact_copy_weighs_as_much_as_a_near_one(clouds, weights):
    builder = asbc.GraphBuilder(weights, metric="euclidean").fit(clouds[0])
    shift = np.random.default_rng(0).normal(size=clouds[0].shape[1])
    own = [builder.transform(clouds[0][:20] + step * shift)[:, :20].diagonal() for step in (0.0, 1e-9, 1e-6, 1e-4)]
    np.testing.assert_allclose(own[0], 1.0, atol=0 if weights == "nnk" else 1e-12)  # the copy keeps all the weight
    np.testing.assert_allclose(own[1:], 1.0, atol=1e-2)


def test_twenty_copies_leave_no_row_empty():
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 4)), 20, axis=0)
    rows = asbc.GraphBuilder(k_cand=15, metric="euclidean").fit(X).weights_
    np.testing.assert_allclose(rows.sum(axis=1), 1)


def test_a_narrow_kernel_still_has_weights(geometry):
    X, neighbors, _ = geometry
    sigma = neighbors.distances[:, 0] / 12  # the largest kernel value is exp(-72)
    W = asbc.nnk_weights(X, neighbors, sigma, k_min=0)
    assert (W.max(axis=1) > 0).all()
    np.testing.assert_allclose(W.max(axis=1), np.exp(-72.0), rtol=1e-6)


def test_reference_solver_is_never_better(geometry, choice):
    X, neighbors, _ = geometry
    sigma = 2 * choice.sigma
    exact = asbc.nnk_weights(X, neighbors, sigma, k_min=0)
    dropping = asbc.nnk_weights(X, neighbors, sigma, k_min=0, solver="reference")
    worse = 0
    for i in range(0, neighbors.n, 5):
        K, b = twins.nnk_problem(X, neighbors.indices[i], neighbors.distances[i], sigma[i])
        gap = twins.nnk_objective(K, b, dropping[i]) - twins.nnk_objective(K, b, exact[i])
        assert gap > -1e-12
        worse += gap > 1e-9
    assert worse > 0


def test_row_weights_name_a_wrong_dimension(geometry):
    X, neighbors = geometry[:2]
    with pytest.raises(ValueError, match="dimension must"):
        asbc.row_weights("gaussian", X, neighbors, asbc.Fixed(1.0).select(X, neighbors), dimension=3.0)


def test_row_weights_apply_what_the_choice_asks_for(geometry):
    X, neighbors, dimension = geometry
    tuned = asbc.SelfTuning().select(X, neighbors, dimension)
    s = neighbors.distances[:, 6]
    expected = np.exp(-(neighbors.distances**2) / (s[:, None] * s[neighbors.indices]))
    np.testing.assert_allclose(asbc.row_weights("gaussian", X, neighbors, tuned), expected)
    dense = asbc.DensityNormalized().select(X, neighbors, dimension)
    kernel = asbc.gaussian_weights(neighbors, dense.sigma)
    q = 1 + kernel.sum(axis=1)
    np.testing.assert_allclose(
        asbc.row_weights("gaussian", X, neighbors, dense), kernel / (q[:, None] * q[neighbors.indices])
    )


def test_sharpening_keeps_the_support_and_follows_its_formula(geometry, choice):
    X, neighbors, _ = geometry
    W = asbc.nnk_weights(X, neighbors, choice.sigma)
    sharp = asbc.sharpen(W, choice.sigma)
    assert np.array_equal(sharp > 0, W > 0)
    p = np.clip(np.median(choice.sigma) / choice.sigma, 0.2, 2)[:, None]
    expected = np.where(W > 0, W, 0) ** p * (W > 0)
    np.testing.assert_allclose(sharp, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    assert (asbc.sharpen(np.zeros((3, 4)), [1.0, 2.0, 3.0]) == 0).all()
    tiny = asbc.sharpen(np.full((1, 3), 1e-300), [0.1], center=1.0)
    np.testing.assert_allclose(tiny, 1 / 3)


@pytest.mark.parametrize("sigma", [0, -1.0, np.nan, np.inf])
def test_bad_sigma(geometry, sigma):
    X, neighbors, _ = geometry
    values = np.ones(240)
    values[17] = sigma
    for call in (lambda: asbc.nnk_weights(X, neighbors, values), lambda: asbc.gaussian_weights(neighbors, values)):
        with pytest.raises(ValueError, match=r"sigma must be from 1e-150 to 1e\+150; node 17 has"):
            call()


def test_other_bad_arguments(geometry, choice):
    X, neighbors, _ = geometry
    with pytest.raises(ValueError, match=r"sigma must have shape \(240,\).*got \(3,\)"):
        asbc.nnk_weights(X, neighbors, np.ones(3))
    with pytest.raises(TypeError, match="sigma must be real numbers; got 'a'"):
        asbc.nnk_weights(X, neighbors, "a")
    with pytest.raises(ValueError, match="k_min must be a whole number from 0 to 30"):
        asbc.nnk_weights(X, neighbors, 1.0, k_min=31)
    with pytest.raises(ValueError, match="solver must be 'exact' or 'reference'; got 'fast'"):
        asbc.nnk_weights(X, neighbors, 1.0, solver="fast")
    with pytest.raises(ValueError, match=r"weights must be 'blend', .*got 'nkk'\. Did you mean 'nnk'\?"):
        asbc.row_weights("nkk", X, neighbors, choice)
    with pytest.raises(TypeError, match=r"weights must be 'blend', .*got 3"):
        asbc.row_weights(3, X, neighbors, choice)
    with pytest.raises(ValueError, match="a bandwidth choice is needed for NNK"):
        asbc.row_weights("nnk", X, neighbors, None)
    with pytest.raises(TypeError, match=r"choice must be asbc\.BandwidthChoice.*got Neighbors"):
        asbc.row_weights("nnk", X, neighbors, neighbors)
    with pytest.raises(ValueError, match=r"sigma must be from 1e-150 to 1e\+150.* has 1e-200"):
        asbc.nnk_weights(X, neighbors, 1e-200)
    for bad in (2.0, np.ones(3)):
        with pytest.raises(ValueError, match="neighbor_sigma must have a number for each row of X, 240 or more"):
            asbc.gaussian_weights(neighbors, 1.0, neighbor_sigma=bad)
    with pytest.raises(ValueError, match=r"neighbor_sigma must be from 1e-150 to 1e\+150; node \d+ has -1\.0"):
        asbc.gaussian_weights(neighbors, 1.0, neighbor_sigma=-np.ones(240))
    with pytest.raises(ValueError, match="center must be a positive number; got -1"):
        asbc.sharpen(np.ones((240, 30)), 1.0, center=-1)
    for call in (asbc.uniform_weights, lambda n: asbc.gaussian_weights(n, 1.0)):
        with pytest.raises(TypeError, match=r"neighbors must be asbc\.Neighbors.*got NoneType"):
            call(None)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("uniform", asbc.Uniform()),
        ("gaussian", asbc.Gaussian()),
        ("nnk", asbc.NNK(k_min=4)),
        ("blend", asbc.Blend(k_min=4)),
    ],
)
def test_a_name_is_short_for_a_rule_everywhere(geometry, choice, name, rule):
    X, neighbors, dimension = geometry
    wanted = asbc.row_weights(name, X, neighbors, choice, dimension=dimension, k_min=4)
    np.testing.assert_array_equal(asbc.row_weights(rule, X, neighbors, choice, dimension=dimension), wanted)
    for weights in (name, rule):
        builder = asbc.GraphBuilder(weights, k_min=4, metric="euclidean").fit(X)
        np.testing.assert_array_equal(builder.weights_, asbc.normalize_weights(wanted))
        sample = Sample(X, None, search=partial(asbc.search_neighbors, k=30), k_min=4)
        found = sample.weights(Method(weights, "spectral"))
        np.testing.assert_array_equal(found, asbc.normalize_weights(wanted))
    assert Method(rule, "spectral").kind == name


def test_blend_is_the_mean_of_its_halves(geometry, choice):
    X, neighbors, dimension = geometry
    sigma = asbc.Perplexity(beta=1.5).select(X, neighbors, dimension).sigma
    halves = asbc.nnk_weights(X, neighbors, choice.sigma), asbc.gaussian_weights(neighbors, sigma)
    wanted = sum(asbc.normalize_weights(half) for half in halves) / 2
    found = asbc.row_weights(asbc.Blend(beta=1.5), X, neighbors, choice, dimension=dimension)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="dimension is needed by this rule"):
        asbc.row_weights("blend", X, neighbors, choice)


def test_a_rule_of_your_own_works_in_the_builder_and_is_checked(geometry):
    X, neighbors, _ = geometry

    class Power(asbc.Weights):
        def __init__(self, power=1.0):
            self.power = power

        def rows(self, block):
            return block.neighbors.distances**-self.power

    builder = asbc.GraphBuilder(Power(2.0), metric="euclidean").fit(X)
    np.testing.assert_allclose(builder.weights_, asbc.normalize_weights(neighbors.distances**-2.0))
    assert builder.bandwidth_ is None and builder.transform(X[:3] + 0.01).shape == (3, 240)

    class Wrong(asbc.Weights):
        def rows(self, block):
            return -block.neighbors.distances

    with pytest.raises(ValueError, match="weights must be finite and at least 0; node 0 has -"):
        asbc.row_weights(Wrong(), X, neighbors)
