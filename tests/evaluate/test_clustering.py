import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs
from sklearn.neighbors import kneighbors_graph

from asbc.evaluate.clustering import cluster


def test_well_separated_blobs_are_found_whatever_their_names():
    X, y = make_blobs(120, centers=4, cluster_std=0.3, random_state=0)
    W = kneighbors_graph(X, 40)
    result = cluster(W, np.array(["w", "x", "y", "z"])[y], seed=0)
    assert result.nmi == pytest.approx(1.0) and result.ari == pytest.approx(1.0)


def test_shuffled_labels_score_near_zero_and_seed_repeats():
    X, y = make_blobs(200, centers=3, random_state=0)
    W = kneighbors_graph(X, 10)
    shuffled = np.random.default_rng(0).permutation(y)
    result = cluster(W, shuffled, seed=1)
    assert abs(result.ari) < 0.05
    assert cluster(W, shuffled, seed=1) == result


def test_64_bit_indices_and_one_class():
    X, y = make_blobs(60, centers=2, random_state=0)
    W = sp.csr_array(kneighbors_graph(X, 10))
    W.indices, W.indptr = W.indices.astype(np.int64), W.indptr.astype(np.int64)
    assert 0 <= cluster(W, y).nmi <= 1
    with pytest.raises(ValueError, match="at least 2 classes"):
        cluster(W, np.zeros(60))
