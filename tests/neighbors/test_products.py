"""Pairs of blocks that threads take: each once, and never two that share a block."""

import threading

from asbc.neighbors.products import Pairs

BLOCKS = 6


def test_threads_never_work_on_one_block_at_a_time():
    order = [(i, j) for i in range(BLOCKS) for j in range(i, BLOCKS)]
    pairs = Pairs(order)
    busy, seen, shared, guard = set(), [], [], threading.Lock()

    def work():
        while (taken := pairs.take()) is not None:
            turn, i, j = taken
            with guard:
                shared.extend(busy & {i, j})
                busy.update({i, j})
                seen.append((turn, i, j))
            with guard:
                busy.difference_update({i, j})
            pairs.give_back(i, j)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not shared
    assert sorted(seen) == [(turn, i, j) for turn, (i, j) in enumerate(order)]


def test_the_first_pair_that_is_free_is_taken():
    pairs = Pairs([(0, 0), (0, 1), (1, 2), (3, 3)])
    assert pairs.take() == (0, 0, 0)
    assert pairs.take() == (2, 1, 2)
    assert pairs.take() == (3, 3, 3)
    pairs.give_back(1, 2)
    pairs.give_back(0, 0)
    assert pairs.take() == (1, 0, 1)
    assert pairs.take() is None
