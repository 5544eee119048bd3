"""Doubtful labels: the compiled sums equal the slow ones, planted errors come first, a folder says what memory says."""

import shutil
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

import asbc
from asbc.learn import source as source_module
from asbc.learn.experts import ClassProbabilities, LeaveOneOutRidge, logistic_regression, weigh_experts
from asbc.learn.issues import move_labels
from asbc.learn.labels import decode_partial, encode_partial
from asbc.learn.predict import loo_predict
from asbc.learn.source import open_source
from asbc.outofcore.driver import build_graph
from asbc.storage import DamagedFileError
from tests.faults.flips import flip


def slow_vote(indices, weights, codes):
    """Weights per class in a dictionary, node by node; a tie goes to the class met first."""
    out = []
    for row, weight in zip(indices, weights, strict=True):
        votes: dict[int, float] = {}
        for j, w in zip(row, weight, strict=True):
            if w > 0 and codes[j] >= 0:
                votes[codes[j]] = votes.get(codes[j], 0.0) + w
        best = max(votes.values(), default=0.0)
        out.append(next((c for c, v in votes.items() if v > best * (1 - 1e-12)), -1))
    return np.array(out)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), classes=st.integers(1, 6), whole=st.booleans())
def test_the_vote_equals_the_slow_twin(seed, n, classes, whole):
    rng = np.random.default_rng(seed)
    k = min(n - 1, 12)
    indices = np.array([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    weights = rng.integers(0, 3, (n, k)).astype(float) if whole else rng.random((n, k)) * (rng.random((n, k)) < 0.6)
    codes = rng.integers(-1, classes, n)
    np.testing.assert_array_equal(loo_predict(indices, weights, codes), slow_vote(indices, weights, codes))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


@pytest.fixture(scope="module")
def fitted(digits):
    return asbc.GraphBuilder(k_cand=15).fit(digits[0])


@pytest.fixture(scope="module")
def folder(digits, tmp_path_factory):
    place = tmp_path_factory.mktemp("issues")
    np.save(place / "x.npy", digits[0])
    build_graph(place / "x.npy", place / "built", asbc.GraphBuilder(k_cand=15), search="exact", block=250)
    return place / "built"


def test_planted_errors_come_first_and_get_their_label_back(digits, fitted):
    y = digits[1]
    rng = np.random.default_rng(0)
    wrong = rng.choice(len(y), 30, replace=False)
    noisy = y.copy()
    noisy[wrong] = (y[wrong] + rng.integers(1, 10, 30)) % 10
    issues = asbc.find_label_issues(fitted, noisy)
    moved = np.isin(np.arange(len(y)), wrong)
    assert average_precision_score(moved, issues.suspicion) > 0.9
    assert (issues.suggested[wrong] == y[wrong]).mean() > 0.9
    assert (np.diff(issues.suspicion[issues.order]) <= 0).all() and len(issues.order) == len(y)
    np.testing.assert_array_equal(issues.voted, loo_predict(fitted.neighbors_.indices, fitted.weights_, noisy))
    assert ((issues.suggested != noisy) == issues.doubtful).all()
    assert ((issues.suspicion > 0.5) == issues.doubtful).all()
    text = repr(issues)
    assert text.startswith(f"LabelIssues: {issues.doubtful.sum()} of 600 labels are doubtful, cosine metric")
    assert f"node {issues.order[0]}: " in text


def slow_ridge(X, codes, count):
    """Predict every labelled node by a ridge regression on the other ones."""
    labeled = np.flatnonzero(codes >= 0)
    centered = X[labeled] - X[labeled].mean(axis=0)
    penalty = 0.1 * (centered**2).sum() / min(centered.shape)
    out = np.empty((len(X), count))
    for i in range(len(X)):
        others = labeled[labeled != i]
        center, Y = X[others].mean(axis=0), np.eye(count)[codes[others]]
        A = X[others] - center
        slope = np.linalg.solve(A.T @ A + penalty * np.eye(X.shape[1]), A.T @ (Y - Y.mean(axis=0)))
        out[i] = (X[i] - center) @ slope + Y.mean(axis=0)
    return out


@pytest.mark.parametrize("shape", [(60, 4), (30, 45)])
def test_ridge_without_a_node_equals_the_slow_twin(shape):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=shape), rng.integers(-1, 3, shape[0])
    for unit in (False, True):
        model = LeaveOneOutRidge(3 * X, codes, 3, unit)
        wanted = slow_ridge(asbc.normalize(X) if unit else 3 * X, codes, 3)
        np.testing.assert_allclose(model.predict(slice(0, 99)), wanted, atol=1e-9)
        np.testing.assert_allclose(model.predict(slice(7, 9)), wanted[7:9], atol=1e-9)


def slow_weights(builder, codes, count):
    """Weight of every class in every row."""
    weights = np.zeros((len(codes), count))
    for i, (row, weight) in enumerate(zip(builder.neighbors_.indices, builder.weights_, strict=True)):
        for j, w in zip(row, weight, strict=True):
            if codes[j] >= 0:
                weights[i, codes[j]] += w
    return weights


def probabilities(source, codes, count):
    """The model, and its probabilities of all nodes."""
    rows = open_source(source, "blend")
    model = ClassProbabilities(rows, codes, count, size=10**6)
    return model, model.predict(next(source_module.row_blocks(rows)))


@pytest.mark.parametrize("unlabeled", [0, 40])
def test_suspicion_compares_the_label_with_classes_that_are_given_as_it(fitted, digits, unlabeled):
    codes = digits[1].copy()
    codes[:unlabeled] = -1
    codes[100:120] = (codes[100:120] + 3) % 10
    issues = asbc.find_label_issues(fitted, codes)
    model, support = probabilities(fitted, codes, 10)
    assert model.moved.max() == 1.0 and ((model.moved > 0) != np.eye(10, dtype=bool)).all()
    for i in range(len(codes)):
        if codes[i] < 0:
            assert np.isnan(issues.suspicion[i]) and issues.suggested[i] == support[i].argmax()
            continue
        own, other = support[i, codes[i]], np.delete(support[i], codes[i]).max()
        rest = sum(support[i, c] * model.moved[c, codes[i]] for c in range(10) if c != codes[i])
        assert issues.suspicion[i] == pytest.approx((rest / (rest + own) + (other > own)) / 2, abs=1e-9)
        assert issues.given_support[i] == pytest.approx(own, abs=1e-9)
        assert issues.support[i] == pytest.approx(max(own, other), abs=1e-9)
        assert issues.suggested[i] == (codes[i] if own >= other else support[i].argmax())


def test_probabilities_follow_from_both_experts_without_the_own_label(fitted, digits):
    codes = digits[1].copy()
    codes[100:120] = (codes[100:120] + 3) % 10
    model, found = probabilities(fitted, codes, 10)
    predicted = slow_ridge(fitted.vectors_, codes, 10)
    linear = np.array(
        [
            row / model.scale @ model.lines[f][:-1] + model.lines[f][-1]
            for row, f in zip(predicted, model.fold, strict=True)
        ]
    )
    logits = model.weights[0] * linear + model.weights[1] * np.log(slow_weights(fitted, codes, 10) + 0.1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, odds / odds.sum(axis=1, keepdims=True), atol=1e-9)
    assert np.bincount(model.fold).tolist() == [120] * 5
    for f in range(5):
        part = model.fold != f
        again = logistic_regression(predicted[part] / model.scale, codes[part], 10, 0.01 * 100 / 600)
        np.testing.assert_allclose(model.lines[f], again, atol=1e-3)


def test_logistic_regression_converges_to_that_of_scikit_learn(monkeypatch):
    monkeypatch.setattr("asbc.learn.experts.ROUNDS", 500)
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    X[np.arange(200), codes] += 1.0
    found = logistic_regression(X, codes, 3, 0.05)
    wanted = LogisticRegression(C=1 / (0.05 * 200), tol=1e-8).fit(X, codes)
    np.testing.assert_allclose(found[:-1].T, wanted.coef_, atol=2e-3)
    intercepts = found[-1] - found[-1].mean()
    np.testing.assert_allclose(intercepts, wanted.intercept_ - wanted.intercept_.mean(), atol=2e-3)


def test_experts_are_weighted_by_likelihood():
    rng = np.random.default_rng(0)
    good, useless = rng.normal(0, 2, (4000, 5)), rng.normal(size=(4000, 5))
    odds = np.exp(1.5 * good)
    codes = np.array([rng.choice(5, p=row / row.sum()) for row in odds])
    codes[:400] = rng.integers(0, 5, 400)
    weights, moved = weigh_experts([good, useless], codes)
    assert weights == pytest.approx([1.5, 0.0], abs=0.15) and moved == pytest.approx(0.1, abs=0.02)


def test_a_folder_read_in_blocks_says_the_same(monkeypatch, digits, fitted, folder):
    wanted = asbc.find_label_issues(fitted, digits[1])
    sizes = []
    monkeypatch.setattr("asbc.learn.issues.MAX_BLOCK_VALUES", 700)

    def small_blocks(rows, block=75):
        for part in source_module.row_blocks(rows, block):
            sizes.append(len(part.indices))
            yield part

    for module in ("issues", "experts", "predict"):
        monkeypatch.setattr(f"asbc.learn.{module}.row_blocks", small_blocks)
    found = asbc.find_label_issues(folder, digits[1], vectors=digits[0])
    for name in ("suggested", "voted", "order", "supporters"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    for name in ("suspicion", "support", "given_support"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-6)
    assert max(sizes) == 75 and sum(sizes) == 3 * 600 and sizes.count(70) == 16
    alone = asbc.find_label_issues(str(folder), digits[1])
    odds = (slow_weights(fitted, digits[1], 10) + 0.1) ** probabilities(str(folder), digits[1], 10)[0].weights
    np.testing.assert_allclose(alone.support, (odds / odds.sum(axis=1, keepdims=True)).max(axis=1), atol=1e-9)
    with pytest.raises(ValueError, match=r"vectors must have one row per node, shape \(600, d\); got shape \(3, 64\)"):
        asbc.find_label_issues(folder, digits[1], vectors=digits[0][:3])


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (np.array([f"digit {i}" for i in range(10)]), ""),
        (np.array([f"digit {i}" for i in range(10)], dtype=object), None),
        (np.array([f"digit {i}" for i in range(10)], dtype=object), np.nan),
        (np.arange(10) + 100, -1),
        (np.arange(10.0), np.nan),
        (np.arange(10).astype(object), None),
    ],
)
def test_unlabelled_nodes_do_not_vote_and_get_a_suggestion(digits, fitted, names, missing):
    y = digits[1]
    hidden = np.arange(len(y)) % 5 == 0
    labels = names[y]
    labels[hidden] = missing
    issues = asbc.find_label_issues(fitted, labels)
    assert np.isnan(issues.suspicion[hidden]).all() and np.isfinite(issues.suspicion[~hidden]).all()
    assert set(issues.order) == set(np.flatnonzero(~hidden))
    assert (issues.suggested[hidden] == names[y][hidden]).mean() > 0.9
    wanted = slow_vote(fitted.neighbors_.indices, fitted.weights_, np.where(hidden, -1, y))
    np.testing.assert_array_equal(issues.voted, names[wanted])
    assert "120 more nodes are unlabelled" in repr(issues)


def test_without_support_the_label_stays_and_the_suspicion_cannot_tell(clouds, tmp_path):
    np.save(tmp_path / "x.npy", clouds[0])
    asbc.build_graph(tmp_path / "x.npy", tmp_path / "built", asbc.GraphBuilder(k_cand=8))
    neighbors, weights = asbc.load_rows(tmp_path / "built")
    labels = np.full(240, -1)
    labels[0] = 3
    issues = asbc.find_label_issues(tmp_path / "built", labels)
    assert issues.suspicion[0] == 0.5 and issues.suggested[0] == 3 and issues.support[0] == 0
    near = (neighbors.indices == 0) & (weights > 0)
    heard = near.any(axis=1)
    assert (issues.suggested[heard] == 3).all()
    assert (issues.suggested[~heard][1:] == -1).all()
    assert asbc.find_label_issues(clouds[0], labels).suspicion[0] == 0.5


def test_supporters_are_the_heaviest_neighbours_with_the_suggested_label(digits, fitted):
    noisy = digits[1].copy()
    noisy[::30] = 1
    issues = asbc.find_label_issues(fitted, noisy)
    for node in range(600):
        weight = dict(zip(fitted.neighbors_.indices[node].tolist(), fitted.weights_[node], strict=True))
        agree = sorted((i for i, w in weight.items() if w > 0 and noisy[i] == issues.suggested[node]), key=weight.get)
        assert issues.supporters[node][issues.supporters[node] >= 0].tolist() == agree[::-1][:5]


@pytest.fixture(scope="module")
def noisy(digits, fitted):
    """Labels of which 60 are moved to any class, and their audit."""
    labels = move_labels(digits[1].astype(np.int64), 0.1, None, 0)
    return labels, asbc.find_label_issues(fitted, labels)


def test_the_number_of_wrong_labels_is_estimated_where_classes_do_not_overlap(digits, fitted, noisy):
    _, issues = noisy
    guess = issues.estimate
    assert guess.low <= 60 <= guess.high and abs(guess.number - 60) < 15
    assert f"about {guess.number} are wrong [{guess.low}, {guess.high}]" in repr(issues)
    np.testing.assert_array_equal(issues.review, issues.order[: min(guess.high, issues.doubtful.sum())])
    clean = asbc.find_label_issues(fitted, digits[1]).estimate
    assert clean.number <= 3 and clean.low == 0
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 1)), rng.random(2000)
    overlap = asbc.find_label_issues(X, (y < 0.5 + 0.45 * np.tanh(X[:, 0])).astype(int), metric="euclidean")
    assert overlap.estimate is None and "unknown, because these classes overlap" in repr(overlap)
    np.testing.assert_array_equal(overlap.review, overlap.order[: overlap.doubtful.sum()])


def test_ties_in_support_do_not_inflate_the_estimate(tmp_path):
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 5, 4000)
    X = rng.normal(size=(5, 16))[clean] * 5 + rng.normal(size=(4000, 16))
    wrong = rng.choice(4000, 60, replace=False)
    labels = clean.copy()
    labels[wrong] = (labels[wrong] + 1) % 5
    np.save(tmp_path / "X.npy", X)
    build_graph(tmp_path / "X.npy", tmp_path / "graph")
    issues = asbc.find_label_issues(tmp_path / "graph", labels)  # no vectors: equal where all neighbours agree
    assert np.unique(issues.support, return_counts=True)[1].max() > 1000
    assert issues.estimate.low <= 60 <= issues.estimate.high
    by_hand = replace(issues, support=np.ones(4000)).estimate  # all nodes are equally clear: all of them count
    assert by_hand.number == issues.doubtful.sum()


def test_a_simulated_review_finds_what_a_real_one_does(digits, noisy):
    labels, issues = noisy
    found = issues.simulate(0.1, trials=3)
    assert set(found["kind"]) == {"near", "uniform"} and (found["low"] <= found["found"]).all()
    assert (found["found"] <= found["high"]).all() and found["high"].max() <= 1
    any_class = found[found["kind"] == "uniform"]
    truth = np.cumsum((labels != digits[1])[issues.order])[any_class["reviewed"] - 1] / 60
    np.testing.assert_allclose(any_class["found"], truth, atol=0.12)
    frame = issues.to_frame(found)
    assert frame["found_near"].is_monotonic_increasing and frame["found_uniform"].iloc[199] > 0.95
    pd.testing.assert_frame_equal(found, issues.simulate(0.1, trials=3))
    with pytest.raises(ValueError, match="trials must be a whole number of at least 2"):
        issues.simulate(trials=1)


def test_moved_labels_go_where_they_may():
    codes = np.tile([0, 1, 2, -1], 50)
    near = np.array([[1], [2], [0]])
    moved = move_labels(codes, 0.3, near, 0)
    changed = np.flatnonzero(moved != codes)
    assert len(changed) == 45 and (moved[changed] == near[codes[changed], 0]).all() and (moved[codes < 0] == -1).all()


@pytest.mark.parametrize("names", [np.arange(10), np.array([f"digit {i}" for i in range(10)]), np.arange(10) % 2 == 0])
def test_corrections_are_applied(digits, fitted, names, tmp_path):
    labels = names[digits[1]]
    issues = asbc.find_label_issues(fitted, labels)
    rows = [(3, labels[3], "keep", labels[3]), (9, labels[9], "accept", names[2]), (11, labels[11], "other", names[5])]
    table = pd.DataFrame(rows, columns=["node", "given", "decision", "label"])
    table.to_csv(tmp_path / "corrections.csv", index=False)
    wanted = labels.copy()
    wanted[[9, 11]] = names[2], names[5]
    for corrections in (tmp_path / "corrections.csv", table, table[["node", "label"]]):
        corrected = issues.apply(corrections)
        assert corrected.dtype == labels.dtype
        np.testing.assert_array_equal(corrected, wanted)
    np.testing.assert_array_equal(issues.given, labels)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node,given,label\n3,8,1\n", "node 3 has the label '3'; the file says '8'"),
        ("node,label\n600,1\n", "node 600 is not one of the 600 nodes"),
        ("node,label\nfirst,1\n", "node must be a row number from 0 that occurs once; got 'first'"),
        ("node,label\n3,1\n3,2\n", "node must be a row number from 0 that occurs once; got '3'"),
        ("node,label\n3,cat\n", "'cat' is not of the same kind as the labels, int64"),
        ("id,label\n3,1\n", "must have the columns node and label; has id, label"),
        ("", r"c\.csv: not a readable CSV file"),
    ],
)
def test_bad_corrections(digits, fitted, tmp_path, text, says):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(ValueError, match=says):
        asbc.find_label_issues(fitted, digits[1]).apply(tmp_path / "c.csv")


def test_a_notebook_shows_the_first_rows(noisy):
    html = noisy[1]._repr_html_()
    assert html.startswith("<p>LabelIssues: ") and html.count("<td>[") == 20


def test_frame(digits, fitted):
    labels = digits[1].copy()
    labels[4] = -1
    frame = asbc.find_label_issues(fitted, labels).to_frame()
    columns = ["given", "suggested", "suspicion", "given_support", "support", "neighbors"]
    assert list(frame.columns) == columns and len(frame) == 600 and frame.index.name == "node"
    assert (digits[1][frame["neighbors"].iloc[0]] == frame["suggested"].iloc[0]).all()
    assert frame["suspicion"].iloc[:-1].is_monotonic_decreasing and frame.index[-1] == 4
    assert (frame.sort_index()["given"].to_numpy() == labels).all()


def test_without_pandas_the_error_names_the_extra(digits, fitted, monkeypatch):
    issues = asbc.find_label_issues(fitted, digits[1])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"asbc\[experiments\]"):
        issues.to_frame()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "labels is None"),
        (np.zeros(599, int), "one label per node, shape \\(600,\\); got shape \\(599,\\)"),
        (np.full(600, -1), "at least one label; all 600 entries are unlabelled"),
        ([None] * 600, "all 600 entries are unlabelled"),
        (np.zeros((600, 2), int), r"got shape \(600, 2\)"),
        (["a", 1] * 300, "labels must be of one kind; got numbers and strings"),
        (np.full(600, 0.5), "whole and finite; got dtype float64"),
        ([{}] * 600, "whole and finite; got dtype object"),
    ],
)
def test_bad_labels(fitted, labels, message):
    with pytest.raises(ValueError, match=message):
        asbc.find_label_issues(fitted, labels)


def test_bad_sources(digits, fitted, tmp_path):
    y = digits[1]
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        asbc.find_label_issues(asbc.GraphBuilder(), y)
    with pytest.raises(TypeError, match="source must be a dense array; got None"):
        asbc.find_label_issues(None, y)
    with pytest.raises(ValueError, match="metric applies to vectors"):
        asbc.find_label_issues(fitted, y, metric="cosine")
    with pytest.raises(FileNotFoundError, match=r"no manifest\.json"):
        asbc.find_label_issues(tmp_path, y)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(DamagedFileError, match="the build is not finished"):
        asbc.find_label_issues(tmp_path, y)


def test_decoding_marks_what_is_missing():
    for labels, marked in (([3, -1], -1), (["a", ""], ""), ([True, None], None)):
        codes, classes = encode_partial(labels)
        assert decode_partial(codes, classes).tolist() == [labels[0], marked]
    assert encode_partial(["-1", "b"])[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("file", "ask"),
    [
        ("rows/weights.npy", lambda folder, y: asbc.find_label_issues(folder, y)),
        ("rows/distances.npy", lambda folder, y: asbc.find_duplicates(folder)),
        ("nodes/dimension.npy", lambda folder, y: asbc.describe(folder)),
        ("graph/data.npy", lambda folder, y: asbc.GraphClassifier(graph=folder).fit(None, y)),
    ],
)
def test_a_damaged_folder_is_named_with_its_file(digits, folder, tmp_path, file, ask):
    damaged = shutil.copytree(folder, tmp_path / "g")
    flip(damaged / file, 8 * 1000)
    with pytest.raises(ValueError, match=rf"{file}: damaged \(its checksum differs\)"):
        ask(damaged, digits[1])


def test_vectors_are_enough(digits):
    X, y = digits
    found = asbc.find_label_issues(X, y)
    builder = asbc.GraphBuilder("blend", metric="cosine").fit(X)
    np.testing.assert_array_equal(found.suspicion, asbc.find_label_issues(builder, y).suspicion)
    assert (asbc.find_label_issues(X, y, metric="euclidean").suspicion != found.suspicion).any()


# --- labels as a pandas Series ---


@pytest.fixture
def shuffled():
    """Vectors as a DataFrame, labels as a Series with the same index, and that Series in another order."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = pd.DataFrame(rng.normal(size=(120, 4)) + 6 * np.eye(4)[y], index=[f"row{i}" for i in range(120)])
    labels = pd.Series(y, index=X.index)
    return X, labels, labels.sample(frac=1, random_state=0)


def test_labels_are_aligned_with_the_index_of_the_vectors(shuffled):
    X, labels, other = shuffled
    builder = asbc.GraphBuilder().fit(X)
    for source in (X, builder):
        expected = asbc.find_label_issues(source, labels)
        np.testing.assert_array_equal(asbc.find_label_issues(source, other).suspicion, expected.suspicion)
        frame = expected.to_frame()
        assert set(frame.index) == set(X.index) and frame.loc["row3", "given"] == labels["row3"]
        assert set(frame.loc["row3", "neighbors"]) <= set(X.index) and frame.loc["row3", "node"] == 3
        corrected = expected.apply(pd.DataFrame({"node": [3], "label": [2]}))
        assert corrected.index.equals(X.index) and corrected["row3"] == 2
        assert asbc.describe(source, other).loo_accuracy == asbc.describe(source, labels).loo_accuracy > 0.9
    for model in (asbc.GraphClassifier(), asbc.NeighborVote()):
        expected = model.fit(X, labels).predict(X)
        np.testing.assert_array_equal(model.fit(X, other).predict(X), expected)
        assert model.score(X, other) == model.score(X, labels) > 0.9


def test_labels_with_another_index_are_refused(shuffled):
    X, labels, _ = shuffled
    others = [labels.reset_index(drop=True), labels.iloc[:-1], labels.set_axis(["row0"] * 120)]
    for wrong in others:
        for call in (asbc.find_label_issues, asbc.describe, asbc.GraphClassifier().fit, asbc.NeighborVote().fit):
            with pytest.raises(ValueError, match=r"different pandas indexes.*to_numpy\(\) to match them by position"):
                call(X, wrong)
    assert asbc.describe(X, others[0].to_numpy()).loo_accuracy > 0.9
    assert asbc.describe(X.to_numpy(), others[0]).loo_accuracy > 0.9  # arrays have no index


def test_many_classes_need_no_matrix_of_their_pairs(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 30
    X = rng.normal(size=(30, 8))[y] * 3 + rng.normal(size=(600, 8))
    y[:12] = (y[:12] + 7) % 30
    few = asbc.find_label_issues(X, y)
    monkeypatch.setattr("asbc.learn.experts.MOST_COMPARED", 20)
    many = asbc.find_label_issues(X, y)
    for issues in (few, many):
        assert np.isin(np.arange(12), np.argsort(-issues.suspicion)[:18]).mean() > 0.9
