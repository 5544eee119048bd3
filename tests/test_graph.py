import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import asbc
from asbc import rows as rows_module
from asbc.neighbors import types as neighbors_module
from tests.walks import fit_graph

BUILDERS = [
    asbc.GraphBuilder(),
    asbc.GraphBuilder(sharpen=True),
    asbc.GraphBuilder("uniform"),
    asbc.GraphBuilder("gaussian", asbc.SelfTuning()),
    asbc.GraphBuilder("gaussian", asbc.DensityNormalized(), symmetrize="mean"),
    asbc.GraphBuilder("gaussian", asbc.Perplexity(), metric="cosine"),
    asbc.GraphBuilder("nnk", asbc.Fixed("median_spectral"), dimension="levina_bickel"),
    asbc.GraphBuilder("nnk", asbc.LogLog(), symmetrize=None),
]


@pytest.mark.parametrize("builder", BUILDERS, ids=repr)
def test_graph_is_sound(builder, clouds):
    X = clouds[0]
    builder = clone(builder)
    A = builder.fit_transform(X)
    assert sparse.issparse(A) and A.format == "csr" and A.shape == (240, 240)
    assert A.has_sorted_indices and (A.data > 0).all()
    assert (A.diagonal() == 0).all()
    if builder.symmetrize:
        assert abs(A - A.T).max() == 0
    else:
        np.testing.assert_allclose(A.sum(axis=1), 1)
    np.testing.assert_allclose(builder.weights_.sum(axis=1), 1)
    assert np.array_equal(clone(builder).fit_transform(X).toarray(), A.toarray())


def test_the_graph_holds_the_rows(clouds):
    builder = asbc.GraphBuilder(symmetrize=None).fit(clouds[0])
    dense = np.zeros((240, 240))
    np.put_along_axis(dense, builder.neighbors_.indices, builder.weights_, axis=1)
    assert np.array_equal(builder.graph_.toarray(), dense)
    upper = asbc.GraphBuilder(symmetrize="max").fit(clouds[0]).graph_.toarray()
    assert np.array_equal(upper, np.maximum(dense, dense.T))
    mean = asbc.GraphBuilder(symmetrize="mean").fit(clouds[0]).graph_.toarray()
    np.testing.assert_allclose(mean, (dense + dense.T) / 2)


def test_making_a_graph_leaves_the_neighbours_as_they_were(geometry):
    _, neighbors, _ = geometry
    before = neighbors.indices.copy()
    weights = np.random.default_rng(0).uniform(size=before.shape)
    kept = weights.copy()
    asbc.to_graph(neighbors, weights)
    assert np.array_equal(neighbors.indices, before)
    assert np.array_equal(weights, kept)


def test_builder_is_the_functions_put_together(geometry):
    X, neighbors, dimension = geometry
    builder = asbc.GraphBuilder(metric="euclidean").fit(X)
    assert np.array_equal(builder.dimension_, dimension)
    choice = asbc.SpectralBandwidth().select(X, neighbors, dimension)
    assert np.array_equal(builder.bandwidth_.sigma, choice.sigma)
    A = asbc.to_graph(neighbors, asbc.nnk_weights(X, neighbors, choice.sigma, k_min=6))
    assert np.array_equal(A.toarray(), builder.graph_.toarray())


@pytest.mark.parametrize("rule", [asbc.SpectralBandwidth(refine=True), asbc.Perplexity(), asbc.SelfTuning()], ids=repr)
def test_blocks_and_shared_pairs_change_nothing(monkeypatch, clouds, rule):
    expected = asbc.GraphBuilder(bandwidth=rule, sharpen=True).fit(clouds[0])
    monkeypatch.setattr(rows_module, "SHARED_BYTES", 0)
    monkeypatch.setattr(neighbors_module, "MOST_PAIRS", 13 * 30**2 // 2)  # 13 nodes at a time
    found = asbc.GraphBuilder(bandwidth=rule, sharpen=True).fit(clouds[0])
    assert np.array_equal(found.graph_.toarray(), expected.graph_.toarray())
    assert np.array_equal(found.bandwidth_.sigma, expected.bandwidth_.sigma)


@pytest.mark.parametrize("rule", [asbc.SpectralBandwidth(), asbc.Perplexity(), asbc.Fixed(2.0)], ids=repr)
def test_coinciding_nodes_are_told_once_and_get_the_same_bandwidth_in_blocks(monkeypatch, clouds, rule):
    X = clouds[0].copy()
    X[50:90] = X[50]
    neighbors = asbc.search_neighbors(X, 30)
    with warnings.catch_warnings(record=True) as expected_warnings:
        warnings.simplefilter("always")
        expected = rule.select(X, neighbors, asbc.dim_mst(X, neighbors))
    monkeypatch.setattr(neighbors_module, "MOST_PAIRS", 13 * 30**2 // 2)  # 13 nodes at a time
    with warnings.catch_warnings(record=True) as found_warnings:
        warnings.simplefilter("always")
        found = asbc.GraphBuilder(bandwidth=rule, metric="euclidean").fit(X)
    assert np.array_equal(found.bandwidth_.sigma, expected.sigma)
    assert np.array_equal(found.bandwidth_.effective_rank, expected.effective_rank)
    assert [str(w.message) for w in found_warnings] == [str(w.message) for w in expected_warnings]
    assert len(found_warnings) == (0 if isinstance(rule, asbc.Fixed) else 1)


@pytest.mark.parametrize("builder", BUILDERS, ids=repr)
def test_unseen_points_get_rows_against_the_fitted_ones(builder, clouds):
    X = clouds[0]
    builder = clone(builder).fit(X[::2])
    rows = builder.transform(X[1::2])
    assert rows.shape == (120, 120)
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    assert (rows.data > 0).all()


def test_unseen_points_one_by_one_or_together(clouds):
    X = clouds[0]
    builder = asbc.GraphBuilder().fit(X[:200])
    together = builder.transform(X[200:]).toarray()
    alone = np.concatenate([builder.transform(x[None]).toarray() for x in X[200:]])
    assert np.array_equal(together, alone)


def test_a_left_out_point_gets_the_row_it_would_have_had(clouds):
    # The row of a node depends on its neighbours alone, so leaving it out and asking again must give it back.
    X = clouds[0]
    whole = asbc.GraphBuilder(dimension="levina_bickel", symmetrize=None).fit(X)
    rest = asbc.GraphBuilder(dimension="levina_bickel").fit(np.delete(X, 17, axis=0))
    row = rest.transform(X[17:18]).toarray()[0]
    np.testing.assert_allclose(np.insert(row, 17, 0.0), whole.graph_.toarray()[17], atol=1e-12)


def test_goes_straight_into_clustering_and_pipelines():
    X, y = load_digits(return_X_y=True)
    keep = y < 4
    A = asbc.GraphBuilder(metric="cosine").fit_transform(X[keep])
    labels = SpectralClustering(4, affinity="precomputed", assign_labels="cluster_qr").fit_predict(A)
    assert normalized_mutual_info_score(y[keep], labels) > 0.8
    pipeline = make_pipeline(StandardScaler(), asbc.GraphBuilder(k_cand=10))
    assert pipeline.fit_transform(X[:100]).shape == (100, 100)
    assert pipeline.transform(X[100:103]).shape == (3, 100)
    pipeline.set_params(graphbuilder__bandwidth=asbc.SpectralBandwidth(), graphbuilder__bandwidth__gamma=0.5)
    assert pipeline[-1].get_params()["bandwidth__gamma"] == 0.5


@pytest.mark.slow
def test_umap_lays_the_graph_out():
    umap = pytest.importorskip("umap.umap_", reason="umap-learn is not installed")
    X, y = load_digits(return_X_y=True)
    keep = y < 3
    A = asbc.GraphBuilder(metric="cosine").fit_transform(X[keep])
    layout, _ = umap.simplicial_set_embedding(
        X[keep],
        A,
        2,
        1.0,
        1.58,
        0.9,
        1.0,
        5,
        60,
        "spectral",
        np.random.RandomState(0),
        "euclidean",
        {},
        False,
        {},
        False,
    )
    neighbors = asbc.search_neighbors(layout, 10)
    assert (y[keep][neighbors.indices] == y[keep][:, None]).mean() > 0.9


def test_survives_pickling(clouds):
    builder = asbc.GraphBuilder().fit(clouds[0])
    again = pickle.loads(pickle.dumps(builder))
    assert np.array_equal(again.transform(clouds[0][:5]).toarray(), builder.transform(clouds[0][:5]).toarray())


def test_random_state(clouds):
    def graph(state):
        return asbc.GraphBuilder(random_state=state).fit(clouds[0]).dimension_

    assert np.array_equal(graph(3), graph(np.int64(3)))
    assert not np.array_equal(graph(3), graph(4))
    assert np.array_equal(graph(np.random.RandomState(1)), graph(np.random.RandomState(1)))
    assert not np.array_equal(graph(None), graph(None))


INPUTS = {
    "more duplicates than k_cand": lambda rng: np.r_[np.ones((50, 3)), rng.normal(size=(60, 3))],
    "all the same": lambda rng: np.ones((60, 4)),
    "collinear": lambda rng: np.linspace(0.1, 1, 100)[:, None] * np.ones(5),
    "n = k + 1": lambda rng: rng.normal(size=(31, 4)),
    "one column": lambda rng: rng.normal(size=(100, 1)),
    "float16": lambda rng: rng.normal(size=(100, 6)).astype(np.float16),
    "integers": lambda rng: rng.integers(1, 5, (100, 3)),
    "fortran order": lambda rng: np.asfortranarray(rng.normal(size=(100, 6))),
    "lists": lambda rng: rng.normal(size=(60, 2)).tolist(),
    "tiny": lambda rng: rng.normal(size=(100, 6)) * 1e-100,
    "huge": lambda rng: rng.normal(size=(100, 6)) * 1e100,
}


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("weights", ["uniform", "gaussian", "nnk"])
@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_that_must_work(kind, weights, metric):
    X = INPUTS[kind](np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", asbc.ConstantNeighborhoodWarning)
        warnings.simplefilter("ignore", asbc.MetricWarning)
        builder = asbc.GraphBuilder(weights, sharpen=True, metric=metric).fit(X)
        rows = builder.transform(X[:3])
    assert np.isfinite(builder.graph_.data).all()
    np.testing.assert_allclose(builder.weights_.sum(axis=1), 1)
    np.testing.assert_allclose(rows.sum(axis=1), 1)


def test_read_only_memory_map(tmp_path, clouds):
    np.save(tmp_path / "x.npy", clouds[0])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    expected = asbc.GraphBuilder().fit_transform(clouds[0])
    assert np.array_equal(asbc.GraphBuilder().fit_transform(mapped).toarray(), expected.toarray())


@pytest.mark.parametrize(
    "parameters, error, message",
    [
        ({"weights": "nkk"}, ValueError, "weights must be 'blend', .*; got 'nkk'. Did you mean 'nnk'?"),
        ({"k_cand": 7}, ValueError, "k_cand must be a whole number of at least 8; got 7"),
        ({"k_cand": 240}, ValueError, "k_cand=240 neighbours need more than 240 nodes; got n_samples = 240"),
        (
            {"k_cand": 9, "bandwidth": asbc.SpectralBandwidth()},
            ValueError,
            "k_mle must be a whole number from 1 to 9, the candidates of a node; got 10",
        ),
        ({"k_cand": None}, ValueError, "k_cand must be a whole number of at least 8; got None"),
        ({"sharpen": "x"}, TypeError, "sharpen must be True or False; got 'x'"),
        ({"random_state": -1}, ValueError, "random_state must be a whole number from 0 to .*None; got -1"),
        ({"k_min": 31, "weights": "gaussian"}, ValueError, "k_min must be a whole number from 0 to 30"),
        ({"k_min": 31}, ValueError, "k_min must be a whole number from 0 to 30"),
        ({"symmetrize": "min"}, ValueError, "symmetrize must be 'mean', 'max' or None; got 'min'"),
        ({"metric": "l1"}, ValueError, "metric must be 'cosine' or 'euclidean'; got 'l1'"),
        ({"dimension": "pca"}, ValueError, "dimension must be 'mst', 'levina_bickel' or 'two_nn'; got 'pca'"),
        ({"bandwidth": 0.5}, TypeError, r"bandwidth must be .*, an instance of asbc.Bandwidth; got 0.5"),
        ({"bandwidth": asbc.SpectralBandwidth(gamma=0)}, ValueError, "gamma must be a positive number; got 0"),
        ({"bandwidth": asbc.Fixed(0)}, ValueError, "value must be a positive number; got 0"),
    ],
)
def test_bad_parameters(parameters, error, message, clouds):
    with pytest.raises(error, match=message):
        asbc.GraphBuilder(**parameters).fit(clouds[0])


@pytest.mark.parametrize("weights", ["gaussian", "nnk"])
def test_rows_that_vanish_are_said_to(weights, clouds):
    with pytest.warns(asbc.EmptyRowWarning, match="240 of 240 nodes have no neighbour with weight"):
        assert asbc.GraphBuilder(weights, asbc.Fixed(1e-3)).fit_transform(clouds[0]).nnz == 0


def test_bad_shapes(geometry):
    _, neighbors, _ = geometry
    with pytest.raises(ValueError, match=r"weights must have shape \(240, 30\), one row per node; got \(240, 29\)"):
        asbc.to_graph(neighbors, np.ones((240, 29)))
    with pytest.raises(ValueError, match="symmetrize must be"):
        asbc.to_graph(neighbors, np.ones((240, 30)), symmetrize="min")


SEEN_AS_UNSEEN = (
    "fit_transform gives the symmetric graph without self loops; transform treats every point as unseen and so "
    "finds a fitted point itself, at distance zero. The two differ by design."
)
ZERO_ROW = "the check rounds a row to zeros, which has no direction; the cosine metric refuses it by design."
EXPECTED_TO_FAIL = {
    "check_estimators_dtypes": ZERO_ROW,
    "check_transformer_general": SEEN_AS_UNSEEN,
    "check_transformer_data_not_an_array": SEEN_AS_UNSEEN,
}


def _checks():
    # One more check skips itself: scikit-learn tries array API inputs only where SCIPY_ARRAY_API is set.
    # The smallest candidate set, since many checks bring ten to thirty samples.
    builder = asbc.GraphBuilder(k_cand=8, k_min=2, bandwidth=asbc.SpectralBandwidth(k_mle=4))
    return list(estimator_checks_generator(builder, expected_failed_checks=EXPECTED_TO_FAIL, mark=None))


@pytest.mark.parametrize(
    "estimator, check", _checks(), ids=lambda value: getattr(getattr(value, "func", None), "__name__", "")
)
def test_scikit_learn_accepts_it(estimator, check):
    name = getattr(check, "func", check).__name__
    if name in EXPECTED_TO_FAIL:
        with pytest.raises((AssertionError, ValueError)):
            check(estimator)
    else:
        check(estimator)


def test_a_graph_of_some_rows_or_of_queries_needs_its_columns_and_no_symmetry(clouds):
    X = clouds[0]
    queries = asbc.search_neighbors(X, 12, queries=X[:20] + 0.1)
    some = asbc.search_neighbors(X, 12).rows(0, 50)
    for neighbors in (queries, some):
        ones = np.ones(neighbors.indices.shape)
        for symmetrize in ("max", "mean", None):
            with pytest.raises(ValueError, match="n_columns must be the number of rows of X, and neighbors refers to"):
                asbc.to_graph(neighbors, ones, symmetrize=symmetrize)
        with pytest.raises(ValueError, match="symmetrize='mean' needs the neighbours of all rows of X"):
            asbc.to_graph(neighbors, ones, n_columns=240)
        assert asbc.to_graph(neighbors, ones, symmetrize=None, n_columns=240).shape == (neighbors.n, 240)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_weights(clouds, bad):
    neighbors = asbc.search_neighbors(clouds[0], 12)
    weights = np.ones((240, 12))
    weights[7, 3] = bad
    with pytest.raises(ValueError, match="weights must be finite and at least 0; node 7 has"):
        asbc.to_graph(neighbors, weights)
    with pytest.raises(TypeError, match=r"neighbors must be asbc\.Neighbors.*got NoneType"):
        asbc.to_graph(None, weights)


def test_whole_numbers_may_be_floats_all_the_way(clouds):
    X = clouds[0]
    builder = asbc.GraphBuilder(k_cand=12.0, k_min=2.0).fit(X)
    assert builder.transform(X[:3]).shape == (3, 240)
    assert asbc.search_neighbors(X, 5.0).k == asbc.search_neighbors(X, 5.0, queries=X[:3]).k == 5


def test_the_fewest_neighbours_need_no_rule_of_their_own(clouds):
    A = asbc.GraphBuilder(k_cand=8).fit_transform(clouds[0])
    assert A.nnz > 0


@pytest.mark.parametrize("X", [None, [1.0, 2.0], np.zeros((2, 3, 4))], ids=["None", "list", "3-D"])
def test_what_is_no_matrix_is_named(X):
    with pytest.raises((TypeError, ValueError), match="X must be"):
        asbc.GraphBuilder().fit(X)


def test_bad_values_of_rules_and_seeds(clouds):
    X = clouds[0]
    with pytest.raises(ValueError, match="value must be a positive number"):
        asbc.GraphBuilder(bandwidth=asbc.Fixed(np.ones(240))).fit(X)
    with pytest.raises(ValueError, match=r"value must be from 1e-150 to 1e\+150"):
        asbc.GraphBuilder(bandwidth=asbc.Fixed(1e-200)).fit(X)
    with pytest.raises(TypeError, match="refine must be True or False; got 'no'"):
        asbc.GraphBuilder(bandwidth=asbc.SpectralBandwidth(refine="no")).fit(X)
    with pytest.raises(ValueError, match="random_state must be a whole number from 0 to 9223372036854775807"):
        asbc.GraphBuilder(random_state=2**64).fit(X)


def test_the_metric_is_cosine_and_every_repr_names_it(clouds):
    X = clouds[0] * np.random.default_rng(0).uniform(0.8, 1.2, (240, 1))
    builder = asbc.GraphBuilder().fit(X)
    by_hand = asbc.GraphBuilder(metric="euclidean").fit(asbc.normalize(X))
    assert np.array_equal(builder.graph_.toarray(), by_hand.graph_.toarray())
    assert builder.metric == asbc.NeighborsTransformer().metric == "cosine"
    for estimator in (asbc.GraphBuilder(k_cand=9), asbc.NeighborsTransformer(), asbc.NeighborVote()):
        assert "metric='cosine'" in repr(estimator)
    assert repr(asbc.GraphBuilder(metric="euclidean")) == "GraphBuilder(metric='euclidean')"
    found = asbc.describe(X)
    assert found.metric == "cosine" and "by the cosine metric" in repr(found)
    assert asbc.describe(X, metric="euclidean").metric == "euclidean"


def test_a_zero_row_is_named(clouds, tmp_path):
    X = clouds[0].copy()
    X[17] = 0
    for call in (asbc.GraphBuilder().fit, asbc.NeighborsTransformer().fit, asbc.describe):
        with pytest.raises(ValueError, match=r"row 17 is all zeros.*metric='euclidean'"):
            call(X)
    asbc.GraphBuilder(metric="euclidean").fit(X)


def test_one_warning_if_lengths_differ_much(tmp_path):
    rng = np.random.default_rng(0)
    even, uneven = rng.normal(size=(200, 32)), rng.normal(size=(200, 32)) * np.geomspace(1, 20, 200)[:, None]
    np.save(tmp_path / "x.npy", uneven)
    calls = {
        "cosine": "ignores that; if lengths matter, use metric='euclidean'",
        "euclidean": "lets lengths decide which rows are near; for embeddings use metric='cosine'",
    }
    for metric, words in calls.items():
        builder = asbc.GraphBuilder(metric=metric)
        with pytest.warns(asbc.MetricWarning, match=words) as caught:
            builder.fit(uneven)
        assert len(caught) == 1 and caught[0].filename == __file__
        with pytest.warns(asbc.MetricWarning, match=words) as caught:
            asbc.build_graph(tmp_path / "x.npy", tmp_path / metric, builder)
        assert len(caught) == 1 and caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            builder.fit(even)
            builder.transform(uneven)  # queries are not checked
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asbc.GraphBuilder(metric="euclidean").fit(uneven[:, :2])  # points in the plane, not embeddings


def test_a_graph_takes_a_short_walk():
    modules = fit_graph()
    assert {"builder", "rows", "weights", "graph"} <= modules.keys() and len(modules) <= 11, list(modules)


def test_overlapping_fits_leave_the_warning_filters_as_they_were(clouds):
    """The first fit to start is the first to end. Filters that a fit sets would be restored in the wrong order."""
    started, finish = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]

    class Waits(asbc.Bandwidth):
        local = True

        def __init__(self, number=0):
            self.number = number

        def choose(self, X, neighbors, dimension):
            started[self.number].set()
            assert finish[self.number].wait(60)
            return asbc.BandwidthChoice(neighbors.distances[:, 2])

    before = list(warnings.filters)
    with ThreadPoolExecutor(2) as pool:
        fits = []
        for number in range(2):
            fits.append(pool.submit(asbc.GraphBuilder("nnk", bandwidth=Waits(number), k_cand=10).fit, clouds[0]))
            assert started[number].wait(60)
        for fit, event in zip(fits, finish, strict=True):
            event.set()
            fit.result()
    assert warnings.filters == before


def test_fits_in_threads_leave_the_warning_filters_as_they_were(clouds):
    """Python's catch_warnings is not thread-safe: overlapping fits that used it left their filters behind."""
    X = np.concatenate([clouds[0], np.ones((60, clouds[0].shape[1]))])
    before = list(warnings.filters)

    def fit(seed):
        for _ in range(3):
            asbc.GraphBuilder("nnk", random_state=seed, k_cand=10).fit(X)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(fit, range(12)))
    assert warnings.filters == before
    with pytest.warns(asbc.ConstantNeighborhoodWarning):
        asbc.GraphBuilder(k_cand=10).fit(X)
