import numpy as np

from asbc.evaluate.hits import pack_hits, unpack_hits


def test_hits_survive_packing():
    rng = np.random.default_rng(0)
    nodes = rng.permutation(101)[:37]
    right = rng.random(37) < 0.5
    hits = unpack_hits(*pack_hits(nodes, right, 101))[:101]
    np.testing.assert_array_equal(hits[nodes], right.astype(int))
    assert (np.delete(hits, nodes) == -1).all()
