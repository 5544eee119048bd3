import numpy as np
import pytest
from scipy import sparse

from asbc.kernels.modularity import join_nodes
from tests import twins


@pytest.mark.parametrize("resolution", [0.2, 1.0, 5.0])
def test_groups_equal_the_twin_also_with_loops(resolution):
    rng = np.random.default_rng(0)
    A = rng.exponential(size=(80, 80)) * (rng.random((80, 80)) < 0.1)
    A = A + A.T
    A[3] = A[:, 3] = 0.0  # a node without edges
    groups = join_nodes(sparse.csr_array(A), resolution)
    assert len(np.unique(groups)) < 80 and groups[3] == 3
    np.testing.assert_array_equal(groups, twins.join_nodes(A, resolution))
    assert np.trace(A) > 0


def test_a_graph_without_edges_keeps_its_nodes_apart():
    assert join_nodes(sparse.csr_array((5, 5)), 1.0).tolist() == [0, 1, 2, 3, 4]
