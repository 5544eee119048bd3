"""Near-duplicates: what belongs together is together, chains are not, and another threshold needs no new search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

import asbc
from asbc.learn.duplicates import complete_groups
from asbc.outofcore.driver import build_graph


def slow_ratio(builder):
    """All ratios as a full matrix; what is in no list is infinitely far."""
    neighbors = builder.neighbors_
    n, scale = neighbors.n, neighbors.distances[:, -1]
    ratio = np.full((n, n), np.inf)
    for i in range(n):
        for j, d in zip(neighbors.indices[i], neighbors.distances[i], strict=True):
            low = min(scale[i], scale[j])
            ratio[i, j] = ratio[j, i] = 0.0 if d == 0 else d / low if low > 0 else np.inf
    return ratio


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 25), cut=st.floats(0.1, 0.9))
def test_groups_are_those_of_complete_linkage(seed, n, cut):
    D = squareform(np.random.default_rng(seed).random(n * (n - 1) // 2))
    i, j = np.triu_indices(n, 1)
    order = np.argsort(D[i, j])
    order = order[D[i, j][order] <= cut]
    member = complete_groups(n, np.stack([i[order], j[order]], axis=1))
    wanted = fcluster(linkage(squareform(D), "complete"), cut, "distance")
    assert (member[:, None] == member).tolist() == (wanted[:, None] == wanted).tolist()


@pytest.fixture(scope="module")
def copies():
    """100 points; 3, 40 and 41 are one, 7 and 60 nearly, and 80 to 84 are a chain of small steps."""
    X = np.random.default_rng(0).normal(size=(100, 8))
    X[40] = X[41] = X[3]
    X[60] = X[7] + 0.02
    for step in range(1, 5):
        X[80 + step] = X[80] + 0.15 * step
    return X


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.25, 0.5, 0.9])
def test_every_pair_of_a_group_is_within_the_threshold(copies, threshold):
    builder = asbc.GraphBuilder(k_cand=15).fit(copies)
    found = asbc.find_duplicates(builder, threshold)
    ratio = slow_ratio(builder)
    for group in found.groups:
        among = ratio[np.ix_(group, group)][~np.eye(len(group), dtype=bool)]
        assert among.max() <= threshold
    i, j = np.nonzero(np.triu(ratio <= threshold, 1))
    assert {tuple(pair) for pair in found.pairs.tolist()} == set(zip(i.tolist(), j.tolist(), strict=True))
    np.testing.assert_allclose(found.ratio, ratio[tuple(found.pairs.T)])
    assert (np.diff(found.ratio) >= 0).all()
    assert any({3, 40, 41} <= set(group.tolist()) for group in found.groups)
    joined = np.concatenate(found.groups)
    assert len(joined) == len(set(joined.tolist()))


def test_no_chains(copies):
    """Each step of the chain is near; its ends are not, so they never share a group."""
    builder = asbc.GraphBuilder(k_cand=15).fit(copies)
    ratio = slow_ratio(builder)
    step, ends = ratio[80, 81], ratio[80, 84]
    threshold = (step + ends) / 2
    assert step < threshold < ends
    found = asbc.find_duplicates(builder, threshold)
    assert any(len(set(group.tolist()) & set(range(80, 85))) > 1 for group in found.groups)
    assert not any({80, 84} <= set(group.tolist()) for group in found.groups)


def test_another_threshold_needs_no_new_search_and_groups_are_nested(copies, monkeypatch):
    builder = asbc.GraphBuilder(k_cand=15).fit(copies)
    found = asbc.find_duplicates(builder, 0.4)
    wanted = {t: asbc.find_duplicates(builder, t) for t in (0.0, 0.2, 0.4, 0.7)}
    monkeypatch.setattr("asbc.builder.search_neighbors", None)
    for threshold, other in wanted.items():
        again = found.at(threshold)
        assert [g.tolist() for g in again.groups] == [g.tolist() for g in other.groups]
        np.testing.assert_array_equal(again.pairs, other.pairs)
        assert again.threshold == threshold
    for group in wanted[0.2].groups:
        assert any(set(group.tolist()) <= set(larger.tolist()) for larger in wanted[0.4].groups)


def test_exact_copies_are_found_however_many():
    X = np.random.default_rng(1).normal(size=(120, 4))
    X[20:90] = X[20]  # far more than the lists hold
    with pytest.warns(asbc.ConstantNeighborhoodWarning):
        builder = asbc.GraphBuilder(k_cand=10).fit(X)
    for threshold in (0.0, 0.3):
        found = asbc.find_duplicates(builder, threshold)
        assert any(group.tolist() == list(range(20, 90)) for group in found.groups)
    assert len(found.redundant) >= 69 and 20 not in found.redundant


def test_the_default_leaves_ordinary_points_alone_in_any_dimension():
    rng = np.random.default_rng(2)
    for d in (2, 4, 10, 50):
        X = rng.uniform(size=(1500, d))
        X[1000] = X[0] + 1e-5
        found = asbc.find_duplicates(asbc.GraphBuilder("uniform").fit(X))
        assert any({0, 1000} <= set(group.tolist()) for group in found.groups)
        assert len(found.redundant) < 0.04 * 1500, d
        assert found.threshold <= 0.25


def test_a_folder_says_the_same(copies, tmp_path):
    np.save(tmp_path / "x.npy", copies)
    build_graph(tmp_path / "x.npy", tmp_path / "built", asbc.GraphBuilder(k_cand=15), search="exact", block=30)
    wanted = asbc.find_duplicates(asbc.GraphBuilder(k_cand=15).fit(copies), 0.5)
    found = asbc.find_duplicates(tmp_path / "built", 0.2).at(0.5)
    np.testing.assert_array_equal(found.pairs, wanted.pairs)
    np.testing.assert_array_equal(found.ratio, wanted.ratio)
    assert repr(found) == repr(wanted) and repr(found).startswith(f"Duplicates: {len(found.groups)} groups")


def test_no_duplicates_at_all():
    found = asbc.find_duplicates(asbc.GraphBuilder(k_cand=10).fit(np.random.default_rng(0).normal(size=(60, 20))), 0)
    assert found.groups == [] and found.pairs.shape == (0, 2) and len(found.redundant) == 0
    assert "0 groups" in repr(found) and "cosine metric" in repr(found)


@pytest.mark.parametrize("threshold", [-0.1, 1.0, np.nan, "0.5", True])
def test_bad_threshold(copies, threshold):
    builder = asbc.GraphBuilder("uniform", k_cand=15).fit(copies)
    with pytest.raises(ValueError, match="threshold must be a number from 0 to below 1"):
        asbc.find_duplicates(builder, threshold)
    with pytest.raises(ValueError, match="threshold must be"):
        asbc.find_duplicates(builder).at(threshold)


def test_a_notebook_shows_the_largest_groups():
    X = np.random.default_rng(0).normal(size=(60, 8))
    X[[40, 50]] = X[3]
    html = asbc.find_duplicates(X, metric="euclidean")._repr_html_()
    assert html.startswith("<p>Duplicates: 1 groups") and "<li>3 nodes: 3, 40, 50</li>" in html
