import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
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


@pytest.mark.parametrize("spread", [0.5, 2.5])  # many pieces, and one
def test_clusters_are_those_of_the_slow_twin(spread):
    # scikit-learn's, which solves with the Laplacian; on a graph with loops.
    X, y = make_blobs(300, centers=12, n_features=5, cluster_std=spread, random_state=0)
    W = sp.csr_matrix(kneighbors_graph(X, 10, include_self=True))
    W = sp.csr_matrix((W + W.T) * 0.5)
    W.indices, W.indptr = W.indices.astype(np.int32), W.indptr.astype(np.int32)
    twin = SpectralClustering(12, affinity="precomputed", assign_labels="cluster_qr", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is not in one piece
        expected = twin.fit_predict(W)
    result = cluster(W, y)
    assert 0.5 < result.nmi <= 1
    assert result.nmi == pytest.approx(normalized_mutual_info_score(y, expected), abs=1e-12)
    assert result.ari == pytest.approx(adjusted_rand_score(y, expected), abs=1e-12)


def test_few_nodes_are_clustered_too():
    W = sp.block_diag([np.ones((3, 3))] * 4)
    assert cluster(W, np.repeat(np.arange(4), 3)).ari == pytest.approx(1.0)
