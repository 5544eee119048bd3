import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from asbc.evaluate.tasks import spectral_clusters


def test_well_separated_blobs_are_found_and_seed_repeats():
    X, y = make_blobs(120, centers=4, cluster_std=0.3, random_state=0)
    W = kneighbors_graph(X, 40)
    found = spectral_clusters(W, 4, seed=1)
    assert adjusted_rand_score(y, found) == 1
    np.testing.assert_array_equal(spectral_clusters(W, 4, seed=1), found)


def test_64_bit_indices_and_one_cluster():
    X, _ = make_blobs(60, centers=2, random_state=0)
    W = sp.csr_array(kneighbors_graph(X, 10))
    W.indices, W.indptr = W.indices.astype(np.int64), W.indptr.astype(np.int64)
    assert len(np.unique(spectral_clusters(W, 2))) == 2
    with pytest.raises(ValueError, match="count must be a whole number from 2 to 60; got 1"):
        spectral_clusters(W, 1)


@pytest.mark.parametrize("spread", [0.5, 2.5])  # many pieces, and one
def test_clusters_are_those_of_the_slow_twin(spread):
    # scikit-learn's, which solves with the Laplacian; on a graph with loops.
    X, _ = make_blobs(300, centers=12, n_features=5, cluster_std=spread, random_state=0)
    W = sp.csr_matrix(kneighbors_graph(X, 10, include_self=True))
    W = sp.csr_matrix((W + W.T) * 0.5)
    W.indices, W.indptr = W.indices.astype(np.int32), W.indptr.astype(np.int32)
    twin = SpectralClustering(12, affinity="precomputed", assign_labels="cluster_qr", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is not in one piece
        expected = twin.fit_predict(W)
    assert adjusted_rand_score(spectral_clusters(W, 12), expected) == 1


def test_few_nodes_are_clustered_too():
    W = sp.block_diag([np.ones((3, 3))] * 4)
    assert adjusted_rand_score(spectral_clusters(W, 4), np.repeat(np.arange(4), 3)) == 1
