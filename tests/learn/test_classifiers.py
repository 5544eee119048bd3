"""Both classifiers: what they compute, what scikit-learn asks of them, and what they refuse."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

import asbc
from asbc.learn.labels import reveal
from asbc.learn.predict import graph_vote, loo_predict, propagate
from asbc.outofcore.driver import build_graph
from asbc.storage import DamagedFileError

CLASSIFIERS = [asbc.GraphClassifier(), asbc.GraphClassifier(class_prior=None, metric="euclidean"), asbc.NeighborVote()]
UNAVOIDABLE = {
    "check_classifiers_classes": "its last step takes -1 for a class, except in estimators that scikit-learn itself "
    "lists as semi-supervised; here it means unlabelled",
    "check_estimators_dtypes": "it rounds a row to zero, which has no direction under the cosine metric",
}


@parametrize_with_checks(CLASSIFIERS, expected_failed_checks=lambda estimator: UNAVOIDABLE)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
def test_the_excused_check_passes_as_it_does_for_semi_supervised_estimators(classifier):
    check_classifiers_classes("LabelSpreading", classifier)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:700], y[:700]


@pytest.fixture(scope="module")
def shown(digits):
    return reveal(digits[1], 5, seed=0)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_missing_labels_are_named(estimator):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        estimator.fit(np.eye(20), None)


def test_it_is_propagation_on_the_builder_s_graph(digits, shown):
    X, y = digits
    builder = asbc.GraphBuilder("gaussian", asbc.Perplexity(), k_cand=20)
    model = asbc.GraphClassifier(builder, alpha=0.7, class_prior=None).fit(X, np.where(shown, y, -1))
    wanted = propagate(clone(builder).fit_transform(X), y, shown, alpha=0.7)
    total = wanted.scores.sum(axis=1)
    np.testing.assert_allclose(model.label_distributions_, wanted.scores / total[:, None], rtol=1e-12)
    np.testing.assert_allclose(model.reach_, total)
    np.testing.assert_array_equal(model.transduction_, wanted.predicted)
    np.testing.assert_array_equal(model.transduction_[shown], y[shown])
    assert not hasattr(builder, "graph_")  # a copy was fitted
    assert model.n_rounds_ == wanted.rounds


def test_new_points_hear_the_nodes_once(digits, shown):
    X, y = digits
    model = asbc.GraphClassifier().fit(X[:500], np.where(shown, y, -1)[:500])
    rows = model.builder_.transform(X[500:])
    scores = rows @ model.label_distributions_
    p = model.predict_proba(X[500:])
    np.testing.assert_allclose(p, scores / scores.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X[500:]), model.classes_[p.argmax(axis=1)])
    theirs = LabelSpreading(kernel="knn", n_neighbors=30).fit(X[:500], np.where(shown, y, -1)[:500])
    assert model.score(X[500:], y[500:]) >= theirs.score(X[500:], y[500:])
    hidden = np.where(np.arange(200) % 2, y[500:], -1)
    assert model.score(X[500:], hidden) == model.score(X[501::2], y[501::2])


def test_more_accurate_than_label_spreading_on_the_same_neighbours(digits):
    X, y = digits
    ahead = []
    for trial in range(5):
        shown = reveal(y, 3, seed=trial)
        labels = np.where(shown, y, -1)
        ours = asbc.GraphClassifier().fit(X, labels).transduction_
        theirs = LabelSpreading(kernel="knn", n_neighbors=30).fit(X, labels).transduction_
        ahead.append((ours == y)[~shown].mean() - (theirs == y)[~shown].mean())
    assert np.mean(ahead) > 0.01 and min(ahead) > 0


@pytest.mark.parametrize("names", [np.array([f"n{i}" for i in range(10)]), np.arange(10) + 5, np.arange(10.0)])
@pytest.mark.parametrize("kind", [asbc.GraphClassifier, asbc.NeighborVote])
def test_labels_of_any_kind(digits, shown, names, kind):
    X, y = digits
    plain = kind().fit(X, np.where(shown, y, -1)).predict(X[:50])
    labels = names[y]
    labels[~shown] = "" if names.dtype.kind == "U" else -1
    np.testing.assert_array_equal(kind().fit(X, labels).predict(X[:50]), names[plain].astype(labels.dtype))
    listed = [name if seen else None for name, seen in zip(names[y].tolist(), shown, strict=True)]
    np.testing.assert_array_equal(kind().fit(X, listed).predict(X[:50]), names[plain])


def test_the_class_prior_sets_the_mass_of_the_classes(digits):
    X, y = digits
    rng = np.random.default_rng(0)
    keep = np.flatnonzero(rng.random(len(y)) < np.where(y < 5, 1.0, 0.3))  # classes of unequal size
    X, y = X[keep], y[keep]
    labels = np.where(rng.random(len(y)) < 0.15, y, -1)
    model = asbc.GraphClassifier(class_prior="labels").fit(X, labels)
    plain = asbc.GraphClassifier(class_prior=None).fit(X, labels)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1)

    def mass(fitted):
        return fitted.label_distributions_[labels < 0].mean(axis=0)

    scaled = plain.label_distributions_ * plain.class_prior_ / mass(plain)
    np.testing.assert_allclose(model.label_distributions_, scaled / scaled.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(plain.class_prior_, np.bincount(labels[labels >= 0]) / (labels >= 0).sum())
    assert np.abs(mass(model) - model.class_prior_).sum() < np.abs(mass(plain) - plain.class_prior_).sum()
    np.testing.assert_array_equal(model.transduction_[labels >= 0], labels[labels >= 0])
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1)
    given = asbc.GraphClassifier(class_prior=5 * model.class_prior_).fit(X, labels)
    np.testing.assert_allclose(given.label_distributions_, model.label_distributions_)
    middle = asbc.GraphClassifier().fit(X, labels)  # halfway between no scaling and equal shares
    per_class = (labels >= 0).sum() / 10
    shrunk = mass(plain) ** (per_class / (per_class + 5))
    np.testing.assert_allclose(middle.class_prior_, shrunk / shrunk.sum())
    scaled = plain.label_distributions_ * shrunk / mass(plain)
    np.testing.assert_allclose(middle.label_distributions_, scaled / scaled.sum(axis=1, keepdims=True))
    equal = [asbc.GraphClassifier(class_prior=prior).fit(X, labels) for prior in ("uniform", np.ones(10))]
    np.testing.assert_allclose(equal[0].label_distributions_, equal[1].label_distributions_)
    np.testing.assert_allclose(equal[0].class_prior_, 0.1)


@pytest.mark.parametrize("prior", ["equal", [0.5, 0.5], np.zeros(10), [np.nan] * 10])
def test_bad_class_priors(digits, shown, prior):
    with pytest.raises(ValueError, match="class_prior must"):
        asbc.GraphClassifier(class_prior=prior).fit(digits[0], np.where(shown, digits[1], -1))


def test_a_graph_from_disk_or_in_memory(digits, shown, tmp_path):
    X, y = digits
    labels = np.where(shown, y, -1)
    builder = asbc.GraphBuilder("gaussian", asbc.Perplexity())
    np.save(tmp_path / "x.npy", X)
    build_graph(tmp_path / "x.npy", tmp_path / "built", builder, search="exact", block=300)
    wanted = asbc.GraphClassifier(builder).fit(X, labels)
    for graph in (tmp_path / "built", str(tmp_path / "built"), wanted.builder_.graph_, wanted.builder_.graph_.tocoo()):
        model = asbc.GraphClassifier(graph=graph).fit(None, labels)
        np.testing.assert_array_equal(model.transduction_, wanted.transduction_)
        np.testing.assert_allclose(model.label_distributions_, wanted.label_distributions_)
        with pytest.raises(ValueError, match=r"X cannot be classified.*builder= instead of graph="):
            model.predict(X)
    with pytest.raises(ValueError, match="y must be one label per node"):
        asbc.GraphClassifier(graph=tmp_path / "built").fit(None, labels[1:])
    for model in (asbc.GraphClassifier(), asbc.NeighborVote()):
        with pytest.raises(TypeError, match=r"X must be a dense array; got "):
            model.fit(tmp_path / "built", labels)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "plan.json").write_text("{}")
    with pytest.raises(DamagedFileError, match="not finished"):
        asbc.GraphClassifier(graph=tmp_path / "other").fit(None, labels)


def test_classes_are_worked_on_some_at_a_time_with_the_same_answer(digits, shown, monkeypatch):
    X, y = digits
    graph = asbc.GraphBuilder("uniform").fit_transform(X)
    codes = np.arange(len(y)) % 41
    wanted = propagate(graph, codes, shown, n_classes=41)
    monkeypatch.setattr("asbc.learn.predict.SCORE_BYTES", 1)
    found = propagate(graph, codes, shown, n_classes=41)
    np.testing.assert_array_equal(found.scores, wanted.scores)
    assert (found.rounds, found.converged) == (wanted.rounds, wanted.converged)


def test_bad_graphs(digits):
    ring = sparse.csr_array(np.roll(np.eye(6), 1, axis=1))
    labels = [0, 1, -1, -1, -1, -1]
    with pytest.raises(ValueError, match=r"graph must be square.*\(6, 5\)"):
        asbc.GraphClassifier(graph=ring[:, :5]).fit(None, labels)
    with pytest.raises(ValueError, match=r"no self loops; clear them"):
        asbc.GraphClassifier(graph=ring + sparse.eye_array(6)).fit(None, labels)
    with pytest.raises(ValueError, match=r"graph must have finite entries of 0 or more; got -1\.0"):
        asbc.GraphClassifier(graph=-ring).fit(None, labels)
    for name, value in (("alpha", 1.5), ("alpha", "a"), ("tol", -1), ("tol", np.nan), ("max_rounds", 2.5)):
        with pytest.raises(ValueError, match=f"{name} must .*; got {value!r}"):
            asbc.GraphClassifier(graph=ring, **{name: value}).fit(None, labels)
    with pytest.raises(TypeError, match="graph must be a sparse matrix of real numbers; got"):
        asbc.GraphClassifier(graph=ring.toarray().tolist()).fit(None, labels)
    with pytest.raises(ValueError, match="builder and graph were both given"):
        asbc.GraphClassifier(asbc.GraphBuilder(), graph=ring).fit(None, labels)


def test_unreached_nodes_stay_unlabelled_and_are_told():
    pieces = sparse.csr_array(([1.0, 1.0, 1.0, 1.0], ([0, 1, 2, 3], [1, 0, 3, 2])), shape=(4, 4))
    with pytest.warns(asbc.UnreachedWarning, match="2 of 4 nodes are reached by no label"):
        model = asbc.GraphClassifier(graph=pieces).fit(None, ["a", "", "", ""])
    assert model.transduction_.tolist() == ["a", "a", "", ""]
    assert (model.label_distributions_[2:] == 0).all()


@pytest.mark.parametrize("kind, options", [(asbc.GraphClassifier, {"class_prior": "uniform"}), (asbc.NeighborVote, {})])
def test_points_out_of_reach_get_the_shares_of_the_classes(kind, options):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (40, 3)), rng.normal(1000, 1, (40, 3))])
    y = np.full(80, -1)
    y[:3] = 0, 1, 1
    model = kind(asbc.GraphBuilder(k_cand=10, metric="euclidean"), **options)
    if kind is asbc.GraphClassifier:
        with pytest.warns(asbc.UnreachedWarning, match="40 of 80 nodes"):
            model.fit(X, y)
    else:
        model.fit(X, y)
        assert (model.loo_predictions_[40:] == -1).all()
    with pytest.warns(asbc.UnreachedWarning, match="1 of 1 points have no label in reach"):
        p = model.predict_proba([[1000.0, 1000.0, 1000.0]])
    np.testing.assert_allclose(p, [model.class_prior_])
    np.testing.assert_allclose(p, [[1 / 2, 1 / 2]] if kind is asbc.GraphClassifier else [[1 / 3, 2 / 3]])


def test_rounds_that_run_out_are_told(digits, shown):
    with pytest.warns(ConvergenceWarning, match="max_rounds=3 were not enough"):
        asbc.GraphClassifier(max_rounds=3).fit(digits[0], np.where(shown, digits[1], -1))


def test_the_vote_is_the_leave_one_out_vote(digits):
    X, y = digits
    model = asbc.NeighborVote().fit(X, y)
    rows = asbc.GraphBuilder(metric="cosine").fit(X)
    predicted = loo_predict(rows.neighbors_.indices, rows.weights_, y)
    np.testing.assert_array_equal(model.loo_predictions_, predicted)
    assert model.loo_score_ == (predicted == y).mean() > 0.9
    assert cross_val_score(make_pipeline(StandardScaler(), asbc.NeighborVote()), X, y, cv=3).mean() > 0.85


def test_the_vote_on_the_symmetrised_graph(digits):
    X, y = digits
    builder = asbc.GraphBuilder()
    model = asbc.NeighborVote(builder, symmetric=True).fit(X, y)
    graph = clone(builder).fit_transform(X)
    votes = graph @ np.eye(10)[y]
    np.testing.assert_array_equal(model.loo_predictions_, votes.argmax(axis=1))
    np.testing.assert_array_equal(graph_vote(graph, y), votes.argmax(axis=1))
    assert model.loo_score_ == (votes.argmax(axis=1) == y).mean()
    with pytest.raises(ValueError, match="symmetric=True needs a builder that symmetrises"):
        asbc.NeighborVote(asbc.GraphBuilder(symmetrize=None), symmetric=True).fit(X, y)


def test_graph_vote_without_voters_and_with_ties():
    graph = sparse.csr_array(([0.1, 0.2, 0.3, 1.0], ([0, 0, 0, 1], [1, 2, 3, 4])), shape=(5, 5))
    assert graph_vote(graph, np.array([-1, 1, 1, 0, -1])).tolist() == [0, -1, -1, -1, -1]


@pytest.mark.parametrize("kind", [asbc.GraphClassifier, asbc.NeighborVote])
def test_bad_input(digits, kind):
    X, y = digits
    with pytest.raises(ValueError, match="y must be one label per node"):
        kind().fit(X, y[:10])
    with pytest.raises(ValueError, match="y must have at least one label; all 700 entries are unlabelled"):
        kind().fit(X, np.full(700, -1))
    with pytest.raises(TypeError, match=r"builder must be an asbc\.GraphBuilder or None; got str"):
        kind("knn").fit(X, y)
    with pytest.raises(ValueError, match="metric='cosine' differs from the builder's, 'euclidean'"):
        kind(asbc.GraphBuilder(metric="euclidean"), metric="cosine").fit(X, y)
    with pytest.raises(TypeError, match="X must be a dense array; got None"):
        kind().fit(None, y)
    with pytest.raises(ValueError, match="k_cand=8 neighbours need more than 8 nodes"):
        kind().fit(X[:5], y[:5])
    model = kind(asbc.GraphBuilder("uniform")).fit(X[y < 8], y[y < 8])
    with pytest.warns(
        asbc.UnseenClassWarning, match=r"y holds 2 class\(es\) that fit never saw, the first is 8\. Their points"
    ):
        found = model.score(X, y)
    assert found == accuracy_score(y, model.predict(X))  # as scikit-learn's own classifiers have it
    with pytest.raises(ValueError, match="y must be of the kind that fit saw, int64; got <U"):
        model.score(X, y.astype(str))
