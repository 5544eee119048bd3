"""What searching a block takes, told by the system: the candidates of its nodes, and little more for each thread."""

import sys
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_memory_is_that_of_the_candidates_and_of_a_tile_per_thread(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    import block_memory

    X = np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", X)
    one, many = (len(X) * block_memory.bytes_per_node(tmp_path / "vectors.npy", threads) for threads in (1, 8))
    sys.modules.pop("block_memory")
    results = 3000 * 39 * (4 + 4 + 8 + 8)  # values, positions, rows and squared distances of the candidates
    assert results / 4 < one < results + 2**24
    assert results / 4 < many < results + 8 * 2**23
