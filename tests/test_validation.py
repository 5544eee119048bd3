"""What may come in, and what an error says of the rest."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import asbc
from asbc import validation
from asbc.validation import (
    as_vectors,
    check_k,
    class_codes,
    normalize,
    numbers_per_node,
    one_of,
    positive_number,
    real_array,
    sigma_per_node,
    square_graph,
    true_or_false,
    weight_rows,
    whole_number,
)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int8", "float64"),
        ("uint64", "float64"),
        ("bool", "float64"),
        (">f4", "float32"),
        (">f8", "float64"),
    ],
)
def test_vectors_become_float32_or_float64_without_loss(given, wanted):
    X = np.array([[0, 1, 1], [1, 0, 1]]).astype(given)
    found = as_vectors(X)
    assert found.dtype == wanted and found.dtype.isnative and found.flags.c_contiguous
    assert (found == X).all()


def test_vectors_are_copied_only_if_they_must_be(tmp_path):
    X = np.ones((4, 3), np.float32)
    assert as_vectors(X) is X
    assert as_vectors(np.asfortranarray(X)).flags.c_contiguous
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(as_vectors(mapped), mapped)
    assert as_vectors([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (None, TypeError, "V must be a dense array; got None"),
        (sparse.eye_array(3).tocsr(), TypeError, "V must be a dense array; got csr_array of float64 and shape (3, 3)"),
        (np.zeros((2, 2), object), TypeError, "V must hold real numbers; got dtype object"),
        ("x.npy", TypeError, "V must be a dense array; got 'x.npy'"),
        (np.zeros((2, 2), complex), TypeError, "V must hold real numbers; got dtype complex128"),
        ([["a", "b"]], TypeError, "V must hold real numbers; got dtype <U1"),
        (np.zeros(3), ValueError, "V must be 2-dimensional, a row per node and at least one column; got shape (3,)"),
        (
            np.zeros((3, 0)),
            ValueError,
            "V must be 2-dimensional, a row per node and at least one column; got",
        ),
        ([[1.0], [np.nan]], ValueError, "V must be finite; row 1 holds NaN or infinity"),
        ([[-np.inf], [1.0]], ValueError, "V must be finite; row 0 holds NaN or infinity"),
    ],
)
def test_vectors_that_cannot_be_are_refused_by_name(X, error, message):
    with pytest.raises(error, match=re.escape(message)):
        as_vectors(X, "V")


def test_a_bad_row_is_found_in_any_strip(monkeypatch):
    monkeypatch.setattr(validation, "STRIP_BYTES", 8 * 3 * 4)  # four rows at a time
    X = np.zeros((11, 3))
    for row in range(11):
        bad = X.copy()
        bad[row, 1] = np.nan
        with pytest.raises(ValueError, match=rf"row {row} holds NaN"):
            as_vectors(bad)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_rows_are_scaled_to_unit_length_at_any_scale(scale):
    assert normalize(np.array([[3.0, 4.0], [-5.0, 12.0]]) * scale) == pytest.approx(
        np.array([[0.6, 0.8], [-5 / 13, 12 / 13]]), rel=1e-15
    )


def test_normalised_rows_keep_their_precision_and_zero_rows_are_refused():
    assert normalize(np.ones((2, 2), np.float16)).dtype == np.float32
    assert normalize(np.ones((2, 2), int)).dtype == np.float64
    with pytest.raises(
        ValueError, match=r"V cannot be normalised: row 1 is all zeros and has no direction\. Drop such rows"
    ):
        normalize([[1.0, 0.0], [0.0, 0.0]], "V")


@pytest.mark.parametrize("value", [3, 3.0, np.int8(3), np.float32(3)])
def test_whole_numbers_of_any_type_become_int(value):
    assert whole_number(value, "m", 1) == 3 and type(whole_number(value, "m", 1)) is int


@pytest.mark.parametrize("value", [0, -1, 2.5, True, None, "3", float("nan"), float("inf")])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ValueError, match=re.escape(f"m must be a whole number of at least 1; got {value!r}.")):
        whole_number(value, "m", 1)


def test_an_upper_limit_is_said_in_words():
    assert whole_number(9, "m", 1, 9) == 9
    with pytest.raises(ValueError, match="m must be a whole number from 1 to 9; got 10"):
        whole_number(10, "m", 1, 9)
    with pytest.raises(ValueError, match="m must be a whole number from 1 to 9, the rows of X; got 10"):
        whole_number(10, "m", 1, 9, "the rows of X")


@pytest.mark.filterwarnings("error")
def test_positive_numbers():
    assert positive_number(2, "g") == 2.0 and type(positive_number(np.float32(2), "g")) is float
    for bad in (0, -1.0, True, None, "1", float("nan"), float("inf")):
        with pytest.raises(ValueError, match=re.escape(f"g must be a positive number; got {bad!r}.")):
            positive_number(bad, "g")


def test_truth_is_not_guessed():
    assert true_or_false(True, "b") is True and true_or_false(np.bool_(False), "b") is False
    for bad in (0, 1, "yes", None):
        with pytest.raises(TypeError, match=re.escape(f"b must be True or False; got {bad!r}.")):
            true_or_false(bad, "b")


def test_one_of_several():
    assert one_of("max", "s", ("max", "mean", None)) == "max" and one_of(None, "s", ("max", None)) is None
    for bad in ("min", 1, False, ["max"]):
        with pytest.raises(ValueError, match=re.escape(f"s must be 'max', 'mean' or None; got {bad!r}.")):
            one_of(bad, "s", ("max", "mean", None))


def test_neighbours_need_nodes():
    assert check_k(4, 5) == 4
    with pytest.raises(ValueError, match="k_cand=5 neighbours need more than 5 nodes; got n_samples = 5"):
        check_k(5, 5, "k_cand")
    with pytest.raises(ValueError, match="k must be a whole number of at least 1; got 0"):
        check_k(0, 5)


def test_one_positive_number_per_node():
    assert numbers_per_node([1, 2], 2, "dimension").dtype == np.float64
    with pytest.raises(ValueError, match=r"dimension must have shape \(3,\).*got \(2,\)"):
        numbers_per_node([1, 2], 3, "dimension")
    for bad in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match=rf"dimension must be from 1e-150 to 1e\+150; node 1 has {float(bad)}"):
            numbers_per_node([1, bad], 2, "dimension")


def test_one_bandwidth_for_all_nodes_or_one_each():
    assert sigma_per_node(2, 3).tolist() == [2, 2, 2]
    assert sigma_per_node([1, 2, 3], 3).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="width must be real numbers; got 'wide'"):
        sigma_per_node("wide", 3, "width")
    with pytest.raises(ValueError, match=r"width must have shape \(3,\).*got \(2,\)"):
        sigma_per_node([1, 2], 3, "width")
    for bad in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match=rf"width must be from 1e-150 to 1e\+150; node 2 has {float(bad)}"):
            sigma_per_node([1, 1, bad], 3, "width")


def test_bandwidths_whose_squares_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match=r"from 1e-150 to 1e\+150; node 0 has 1e-160"):
        sigma_per_node(1e-160, 3)
    with pytest.raises(ValueError, match=r"node 1 has 1e\+160"):
        sigma_per_node([1, 1e160, 1], 3)


def test_whole_numbers_may_be_larger_than_any_float():
    assert whole_number(10**400, "k", 1) == 10**400
    with pytest.raises(ValueError, match="k must be a whole number from 1 to 9; got 10000"):
        whole_number(10**400, "k", 1, 9)
    with pytest.raises(ValueError, match="sigma must be a positive number"):
        positive_number(10**400, "sigma")


def test_ids_classes_weights_and_graphs_at_the_door():
    ids, options = np.array([[1, 2], [0, 2], [0, 1]]), {"low": 0, "high": 2, "whole": True}
    assert real_array(ids, "ids", ("n", "k"), **options) is ids
    for wrong in (ids - 1, ids + 1, ids.astype(float), ids[0], ids[:, :0], np.ma.masked_less(ids, 1)):
        with pytest.raises((TypeError, ValueError), match="ids must"):
            real_array(wrong, "ids", ("n", "k"), **options)
    assert class_codes([0, 2, 1], 3).dtype == np.int64
    for wrong in ([0, -1, 1], [0, 1], [0.0, 1.0, 2.0], [0, 1, 10**7], 5):
        with pytest.raises((TypeError, ValueError), match="codes must"):
            class_codes(wrong, 3)
    assert class_codes([0, -1, 1], 3, least=-1).tolist() == [0, -1, 1]
    for wrong in ([[1.0, -1.0]], [[np.nan, 1.0]], [[np.inf, 1.0]], [1.0], np.ma.masked_less([[1.0, 2.0]], 2)):
        with pytest.raises(ValueError, match="weights must"):
            weight_rows(wrong)
    with pytest.raises(TypeError, match="weights must be real numbers"):
        weight_rows([["a"]])
    assert square_graph(np.eye(2)).nnz == 2
    for wrong in (-np.eye(2), np.ones((2, 3)), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="graph must"):
            square_graph(wrong)
    with pytest.raises(TypeError, match="graph must be a sparse matrix of real numbers"):
        square_graph("x")


@pytest.mark.parametrize("estimator", [asbc.GraphBuilder(), asbc.NeighborsTransformer(5), asbc.GraphClassifier()])
@pytest.mark.parametrize("kind", [np.asarray, list, pd.DataFrame])
def test_complex_input_of_an_estimator_is_a_one_line_error(estimator, kind):
    X = kind(np.random.default_rng(0).normal(size=(60, 4)) + 1j)
    with pytest.raises(
        ValueError, match="Complex data not supported: X must hold real numbers; got dtype complex128"
    ) as e:
        estimator.fit(X, np.arange(60) % 2)
    assert "\n" not in str(e.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("queries", [False, True])
def test_subnormal_vectors_have_the_neighbours_of_scaled_ones(queries):
    X = np.random.default_rng(0).integers(-1000, 1000, size=(100, 8))  # exact at either scale
    small = (X * 2.0**-140).astype(np.float32)
    found = asbc.search_neighbors(small, 5, queries=small[:20] if queries else None)
    wanted = asbc.search_neighbors(X, 5, queries=X[:20] if queries else None)
    assert np.array_equal(found.indices, wanted.indices)
    assert np.array_equal(found.distances, wanted.distances * 2.0**-140)
