"""The numbers behind the page: one row per node, and they agree with the library's own functions."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import asbc
from asbc.embeddings.store import MIN_PER_STRATUM, stratified_share
from asbc.explore import explore, findings
from asbc.explore.findings import scale_strengths
from asbc.explore.page import cluster_names, colorings, render
from tests.conftest import curved_clouds


@pytest.fixture
def still(monkeypatch):
    """A layout that takes no time, for tests that do not look at it."""
    monkeypatch.setattr(findings, "place_nodes", lambda graph, *_, **__: np.zeros((graph.shape[0], 2), np.float32))


def test_the_table_is_what_the_library_says(made):
    X, y = np.load(made / "vectors.npy"), np.load(made / "labels.npy")
    table = pd.read_parquet(made / "explore.parquet")
    builder = asbc.GraphBuilder(weights="blend", metric="euclidean").fit(X)
    about, issues = asbc.describe(builder, y), asbc.find_label_issues(builder, y)
    assert len(table) == len(X) and table["x"].notna().all() and table["y"].notna().all()
    assert table["label"].fillna("").tolist() == y.tolist() and table["label"].isna().sum() == 1
    np.testing.assert_array_equal(table["dimension"], builder.dimension_)
    np.testing.assert_array_equal(table["sigma"], builder.bandwidth_.sigma)
    np.testing.assert_array_equal(table["scale"], builder.neighbors_.distances[:, -1])
    np.testing.assert_array_equal(table["density"], about.density)
    np.testing.assert_array_equal(np.flatnonzero(table["outlier"]), np.sort(about.outliers))
    np.testing.assert_array_equal(table["suspicion"], issues.suspicion)
    assert table["suggested"].tolist() == issues.suggested.tolist()
    assert table["outlier"][50] and table["duplicate_group"][109] == table["duplicate_group"][110] >= 0
    assert table["nearest_ratio"][109] == 0


@pytest.mark.parametrize(
    "labels",
    [
        None,
        np.full(60, -1),
        [None] * 60,
        [""] * 60,
        np.full(60, np.nan),
        np.zeros(60, int),
        np.arange(60),
        [0.0, float("nan")] * 30,
        ["a", None, "b"] * 20,
        np.arange(60) % 2 == 0,
    ],
    ids=["none", "-1", "None", "empty", "nan", "one class", "singletons", "floats", "mixed", "bool"],
)
def test_any_labels(labels, still, request):
    found = explore(curved_clouds(60)[0], labels)
    nothing = labels is None or pd.Series(list(labels), dtype=object).replace({-1: None, "": None}).isna().all()
    case = request.node.callspec.id
    names, one = case == "singletons", case in ("one class", "floats")  # what no neighbour can confirm, or contradict
    assert ("label" not in found.nodes) == nothing
    assert (found.issues is None) == (nothing or names or one)
    if case in ("none", "one class", "singletons", "mixed"):
        page = render(found, "any")
        assert ('id="labels"' in page) == (case == "mixed")
        assert ("no two nodes have the same label, so they are shown and not judged" in page) == names
        assert ("all labels are of one class, so they are shown and not judged" in page) == one
        assert ('placeholder="id or label"' in page) != nothing


def test_a_label_that_no_other_node_has_is_said_to_be_so(still):
    X, y = curved_clouds(60)
    sentence = "with a single node cannot be judged"
    assert sentence not in render(explore(X, y), "any")
    labels = y.copy()
    labels[:2] = 70, 71
    assert f"2 classes {sentence}" in render(explore(X, labels), "any")


def test_the_search_says_what_it_looks_at(still):
    X = curved_clouds(60)[0]
    assert 'placeholder="id or image"' in render(explore(X, images=["a.png"] * 60), "any")
    assert 'placeholder="id, label or text"' in render(explore(X, ["a", "b"] * 30, texts=["t"] * 60), "any")


def test_the_legend_counts_as_people_do(still):
    labels = [f"class {number}" for number in (10, 2, 1, 33, 4)] * 12 + ["class 007"] * 14
    (way,) = [way for way in colorings(explore(curved_clouds(90)[0][:74], labels)) if way.key == "label"]
    assert [name for name, _ in way.legend] == [f"class {n}" for n in ("007", 1, 2, 4, 10, 33)]
    assert [count for _, count in way.legend] == [14, 12, 12, 12, 12, 12]


def test_too_few_vectors_and_labels_of_another_length(still):
    with pytest.raises(ValueError, match="at least 9 vectors; got 8"):
        explore(np.eye(8))
    with pytest.raises(ValueError, match="one entry per node: expected 20, got 19"):
        explore(np.random.default_rng(0).normal(size=(20, 3)), np.zeros(19, int))
    with pytest.raises(ValueError, match="texts must have one entry per node: expected 20, got 3"):
        explore(np.random.default_rng(0).normal(size=(20, 3)), texts=["a"] * 3)


def test_more_nodes_than_a_map_shows(still, monkeypatch, tmp_path):
    monkeypatch.setattr(findings, "MAP_LIMIT", 50)
    X, y = curved_clouds(120)
    found = explore(X, y)
    assert 50 <= len(found.shown) < 120 and set(y[found.shown]) == set(y)
    assert set(found.suspects[:100]) | set(found.about.hubs) <= set(found.shown)
    assert (found.nodes["x"].notna().to_numpy() == np.isin(np.arange(120), found.shown)).all()
    text = render(found, "many")
    assert f"The map shows a sample of {len(found.shown)} of 120 nodes, stratified by class" in text
    builder = asbc.GraphBuilder().fit(X)
    np.save(tmp_path / "v.npy", X)
    asbc.build_graph(tmp_path / "v.npy", tmp_path / "graph", builder)
    with pytest.raises(ValueError, match="120 nodes are more than the 50 that a map shows"):
        explore(tmp_path / "graph")
    assert len(explore(tmp_path / "graph", vectors=X).nodes) == 120


def test_a_stratified_share():
    strata = np.repeat([0, 1, 2], [1000, 3, 200])
    taken = stratified_share(strata, 200, seed=1)
    counts = np.bincount(strata[taken])
    assert len(taken) == len(set(taken)) == 200 and counts[1] == 3
    rest = 200 - 3 - 2 * MIN_PER_STRATUM
    np.testing.assert_allclose(counts[[0, 2]] - MIN_PER_STRATUM, rest * np.array([990, 190]) / 1180, atol=1)
    np.testing.assert_array_equal(taken, stratified_share(strata, 200, seed=1))
    np.testing.assert_array_equal(stratified_share(strata, 5000), np.arange(1203))
    assert len(stratified_share(np.arange(100), 30)) == 30  # more strata than places


def test_clusters_are_those_of_the_library(made):
    X, texts = np.load(made / "vectors.npy"), (made / "texts.txt").read_text().splitlines()
    table = pd.read_parquet(made / "explore.parquet")
    clusters = asbc.GraphClusters(metric="euclidean").fit(X)
    np.testing.assert_array_equal(table["cluster"], clusters.labels_)
    np.testing.assert_array_equal(table["cluster_confidence"], clusters.confidence_)
    named = table.groupby("cluster")["cluster_name"].agg(["first", "nunique"])
    words = asbc.name_clusters(clusters.labels_, texts=texts)
    assert (named["nunique"] == 1).all() and named["first"].is_unique
    assert all(name.startswith(word) for name, word in zip(named["first"], words, strict=True))


def test_the_table_of_clusters(still):
    X, y = curved_clouds(120)
    labels = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])[y]
    found = explore(X, labels)
    table, nodes = found.clusters.table, found.nodes
    assert table["size"].tolist() == nodes["cluster"].value_counts(sort=False).sort_index().tolist()
    assert table["size"].is_monotonic_decreasing and table["stability"].between(0, 1).all()
    for row in table.itertuples():
        members = nodes[nodes["cluster"] == row.cluster]
        most = members["label"].value_counts(normalize=True)
        assert f"{most.iloc[0]:.0%}" in row.labels and set(row.examples) <= set(members["node"])
        assert 1 <= len(row.examples) <= 3 and set(row.examples) <= set(found.shown)
    page = render(found, "any")
    assert all(f"</i>{name}</button>" in page for name in table["name"])
    assert explore(X).clusters.table["name"].tolist()[0] == "cluster 0"


def test_clusters_are_the_first_colours_without_labels_or_with_many(still):
    X, y = curved_clouds(120)
    first = [colorings(explore(X, labels))[0].key for labels in (None, y, np.arange(120) % 20, np.arange(120) % 21)]
    assert first == ["cluster", "label", "label", "cluster"]


def test_pictures_stand_for_clusters_without_texts_and_labels(still):
    X, y = curved_clouds(120)
    found = explore(X, images=[f"{i}.png" for i in range(120)])
    levels = cluster_names(found, pictures=True)
    assert len(levels) == len(found.clusters.levels)
    for level, examples in zip(levels, found.clusters.examples, strict=True):
        assert [name["picture"] for name in level] == examples[:, 0].tolist() and "text" not in level[0]
        assert [name["row"] for name in level] == examples[:, 0].tolist()
    thumbnails = dict.fromkeys(range(120), "AAAA")
    assert '"picture":' in render(found, "any", thumbnails)
    labelled = explore(X, y, images=[f"{i}.png" for i in range(120)])
    assert '"text":' in render(labelled, "any", thumbnails)


def test_without_graspologic_the_page_has_no_clusters(still, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "graspologic_native", None)
    found = explore(curved_clouds(60)[0])
    (record,) = caplog.records
    assert record.getMessage() == (
        'no clusters on this page: GraphClusters needs graspologic_native: pip install "asbc[cluster]"'
    )
    assert found.clusters is None and "cluster" not in found.nodes
    assert colorings(found)[0].key == "dimension" and '<div class="clusters">' not in render(found, "any")


def test_strengths_keep_the_shape_of_a_graph():
    rng = np.random.default_rng(0)
    dense = rng.random((12, 12)) * (rng.random((12, 12)) < 0.4)
    dense = np.maximum(dense, dense.T)
    np.fill_diagonal(dense, 0)
    dense[3] = dense[:, 3] = 0  # a node that nothing is connected to
    got = scale_strengths(sparse.csr_array(dense)).toarray()
    most = dense.max(axis=1)
    for i in range(12):
        for j in range(12):
            wanted = max(dense[i, j] / most[i], dense[i, j] / most[j]) if dense[i, j] else 0.0
            assert got[i, j] == pytest.approx(wanted)
    np.testing.assert_array_equal(got, got.T)


def test_labels_and_texts_are_aligned_with_the_index_of_the_vectors():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    X = pd.DataFrame(rng.normal(size=(60, 3)) + 6 * np.eye(3)[y], index=[f"row{i}" for i in range(60)])
    columns = pd.DataFrame({"label": y, "text": X.index}, index=X.index)
    other = columns.sample(frac=1, random_state=0)
    plain, found = (explore(X, frame["label"], texts=frame["text"]).nodes for frame in (columns, other))
    assert found["text"].tolist() == plain["text"].tolist() == X.index.tolist()
    assert found["label"].tolist() == plain["label"].tolist() == y.astype(str).tolist()
    with pytest.raises(ValueError, match="texts and the vectors have different pandas indexes"):
        explore(X, y, texts=columns["text"].reset_index(drop=True))
