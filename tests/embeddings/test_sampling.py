import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asbc.embeddings import stratified_sample


@given(
    counts=st.lists(st.integers(4, 12), min_size=1, max_size=6),
    small=st.integers(1, 4),
    large=st.integers(1, 4),
    seed=st.integers(0, 2**40),
)
def test_balanced_repeatable_and_nested(counts, small, large, seed):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)) * 3 - 8, counts))
    small, large = sorted((small, large))
    rows = stratified_sample(labels, large, seed)
    assert np.array_equal(np.unique(rows), rows), "ascending, none twice"
    assert np.array_equal(np.unique(labels[rows], return_counts=True)[1], np.full(len(counts), large))
    assert np.array_equal(rows, stratified_sample(labels, large, seed))
    assert set(stratified_sample(labels, small, seed)) <= set(rows)


def test_seeds_differ_and_every_row_has_its_chance():
    labels = np.repeat([0, 1], 20)
    samples = [stratified_sample(labels, 5, seed) for seed in range(60)]
    assert not np.array_equal(samples[0], samples[1])
    assert set(np.concatenate(samples)) == set(range(40))
    offsets = [(rows[:5], rows[5:] - 20) for rows in samples]
    assert any(not np.array_equal(a, b) for a, b in offsets), "classes must not share one permutation"


def test_string_labels_give_the_rows_of_their_codes():
    words = np.array(["cat", "dog", "ant"] * 7)
    codes = np.unique(words, return_inverse=True)[1]
    assert np.array_equal(stratified_sample(words, 3, 1), stratified_sample(codes, 3, 1))


def test_a_class_with_fewer_gives_all_it_has_and_the_unlabelled_are_of_no_class():
    labels = np.array(["b", "a", "a", "", "a", "b", ""])
    assert stratified_sample(labels, 3).tolist() == [0, 1, 2, 4, 5]
    whole = np.array([4, 4, 4, 9, 9, 9])
    assert np.array_equal(stratified_sample(np.append(whole, -1), 2), stratified_sample(whole, 2))


@pytest.mark.parametrize(
    ("labels", "per_class", "seed", "message"),
    [
        ([-1, -1], 2, 0, "at least one label; all 2 entries are unlabelled"),
        ([0, 1], 0, 0, "per_class must be a whole number of at least 1; got 0"),
        ([0, 1], 1.5, 0, "per_class must be a whole number"),
        ([0, 1], 1, -1, "seed must be a whole number from 0 to .*; got -1"),
        ([], 1, 0, "labels must have at least one label"),
        ([[0], [1]], 1, 0, r"got shape \(2, 1\)"),
    ],
)
def test_bad_input(labels, per_class, seed, message):
    with pytest.raises(ValueError, match=message):
        stratified_sample(labels, per_class, seed)
