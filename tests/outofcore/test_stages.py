"""What blocks write: the same bits as in one piece, for every rule and any size of blocks."""

import warnings

import numpy as np
import pytest

import asbc
from asbc.bandwidth import ConstantNeighborhoodWarning
from asbc.neighbors import types as neighbors_module
from asbc.outofcore.driver import build_graph
from tests.outofcore.small import BUILDERS, assert_same_as_in_one_piece, build, files_of, without_block


@pytest.mark.parametrize("name", BUILDERS)
def test_the_same_bits_as_the_estimator(X, path, tmp_path, name):
    builder = asbc.GraphBuilder(k_cand=12, **BUILDERS[name])
    build(path, tmp_path / "g", builder)
    assert_same_as_in_one_piece(X, tmp_path / "g", builder)


@pytest.mark.parametrize("block", [1, 64, 699, 100_000])
def test_any_block_size(path, tmp_path, block):
    if block == 1:  # one file per node: fewer nodes will do
        np.save(tmp_path / "few.npy", np.load(path)[95:135])
        path = tmp_path / "few.npy"
    options = {"search": "ivf", "search_options": {"n_lists": 5, "n_probe": 2}}
    build(path, tmp_path / "a", block=block, **options)
    build(path, tmp_path / "b", block=150, **options)
    assert without_block(files_of(tmp_path / "a")) == without_block(files_of(tmp_path / "b"))


@pytest.mark.parametrize("name", ["log_log", "median_spectral", "density"])
def test_any_block_size_of_rules_that_need_all_nodes(path, tmp_path, name):
    for folder, block in (("a", 64), ("b", 150), ("c", 100_000)):
        build(path, tmp_path / folder, asbc.GraphBuilder(k_cand=12, **BUILDERS[name]), block=block)
    some = without_block(files_of(tmp_path / "b"))
    assert without_block(files_of(tmp_path / "a")) == some == without_block(files_of(tmp_path / "c"))


def test_many_neighbours_are_taken_in_smaller_pieces(path, tmp_path, monkeypatch):
    build(path, tmp_path / "a")
    monkeypatch.setattr(neighbors_module, "MOST_PAIRS", 40 * 12**2 // 2)  # 40 nodes at a time
    build(path, tmp_path / "b")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


@pytest.mark.parametrize("form", ["float16", "float64", "fortran", "big-endian", "big-endian float64"])
def test_other_arrays(X, tmp_path, form):
    forms = {
        "float16": X.astype(np.float16),
        "float64": X.astype(float),
        "fortran": np.asfortranarray(X),
        "big-endian": X.astype(">f4"),
        # Numbers that single precision does not have: a cut would show.
        "big-endian float64": (X + np.random.default_rng(0).normal(size=X.shape) * 1e-9).astype(">f8"),
    }
    np.save(tmp_path / "x.npy", forms[form])
    builder = asbc.GraphBuilder(k_cand=12, metric="cosine" if form == "float16" else "euclidean")
    build(tmp_path / "x.npy", tmp_path / "g", builder, search="ivf", search_options={"n_lists": 4, "n_probe": 4})
    assert_same_as_in_one_piece(forms[form], tmp_path / "g", builder)


def test_constant_neighbourhoods_are_reported_once(path, tmp_path):
    with pytest.warns(ConstantNeighborhoodWarning, match="20 of 700 nodes") as caught:
        build_graph(path, tmp_path / "g", asbc.GraphBuilder(k_cand=12), search="exact", block=50)
    assert len([w for w in caught if w.category is ConstantNeighborhoodWarning]) == 1


def test_rows_without_weight_are_told_once(path, tmp_path):
    builder = asbc.GraphBuilder(k_cand=12, weights="gaussian", bandwidth=asbc.Fixed(1e-3))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        build(path, tmp_path / "g", builder)
    with pytest.warns(asbc.EmptyRowWarning) as expected:
        builder.fit(np.load(path))
    assert [str(w.message) for w in told if w.category is asbc.EmptyRowWarning] == [str(expected[0].message)]
