import numpy as np
import pandas as pd
import pytest

import asbc


def test_words_that_set_a_cluster_apart_come_first():
    texts = ["please freeze my card", "my card was stolen", "please play some jazz", "play jazz louder please"] * 5
    names = asbc.name_clusters(np.arange(20) % 4 // 2, texts=texts, n_words=2)
    assert names[0].startswith("card") and set(names[1].split(", ")) == {"jazz", "play"}
    assert not any("please" in name for name in names)


def test_a_pandas_series_of_texts_is_read_in_its_order():
    texts = pd.Series(["lost card", "cheap flight"], index=[1, 0])
    assert asbc.name_clusters([0, 1], texts=texts, n_words=2) == ["card, lost", "cheap, flight"]


def test_texts_without_words_still_get_a_name():
    assert asbc.name_clusters([0, 1], texts=["12 34", "!"]) == ["cluster 0", "cluster 1"]
    assert asbc.name_clusters([0, 1], texts=["the", "of it"]) == ["cluster 0", "cluster 1"]


def test_labels_give_the_majority_with_its_share():
    names = asbc.name_clusters([0, 0, 0, 1, 1, 2, -1], labels=["a", "a", "b", "b", None, "", "b"])
    assert names == ["a (67%)", "b (100%)", "cluster 2"]


def test_without_a_majority_the_most_frequent_labels_share_the_name():
    labels = ["a"] * 3 + ["b"] * 4 + list("cdefgh") + ["i"] * 3 + ["j"] * 3
    names = asbc.name_clusters([0] * 13 + [1] * 6, labels=labels)
    assert names == ["b, a (54%)", "i (50%)"]
    assert asbc.name_clusters([0] * 6, labels=list("abcdef")) == ["a, b, c (50%)"]
    assert asbc.name_clusters([0] * 10, labels=list("abcdefghij")) == ["a, b, c (30%)"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({}, "either texts or labels"),
        ({"texts": ["a"] * 3, "labels": [0, 1, 2]}, "either texts or labels"),
        ({"texts": ["a"]}, "one entry per node, 3; got 1"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        asbc.name_clusters([0, 0, 1], **arguments)


def test_clusters_must_be_whole_numbers():
    with pytest.raises(ValueError, match="whole numbers"):
        asbc.name_clusters([0.5, 1.0], texts=["a", "b"])
