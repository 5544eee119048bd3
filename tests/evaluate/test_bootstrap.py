import numpy as np
import pytest

from asbc.evaluate import bootstrap as module
from asbc.evaluate.bootstrap import Bootstrap
from asbc.evaluate.comparison import compare


def hits(rng, share, seen):
    return np.where(seen, rng.random(seen.shape) < share, -1).astype(np.int8)


def slow_sums(n_boot, seed, trials, count, gain, scored):
    """The bootstrap as it is meant: trials, then nodes, from one generator."""
    rng = np.random.default_rng(seed)
    rng.multinomial(trials, np.full(trials, 1 / trials), size=n_boot)
    weight = rng.poisson(count, (n_boot, len(count)))
    return weight @ gain, weight @ scored


@pytest.mark.parametrize("kept", [2**24, 100], ids=["shared stream", "stream too long to keep"])
def test_sums_are_those_of_a_bootstrap_drawn_alone(kept, monkeypatch):
    monkeypatch.setattr(module, "KEPT", kept)
    rng = np.random.default_rng(0)
    shared = Bootstrap(300, 7)
    for size in (3, 40, 11):  # the stream is read again, and grows
        count = rng.integers(1, 30, size) ** rng.integers(0, 2, size)
        gain, scored = rng.integers(-1, 2, (size, 4)), rng.integers(0, 2, (size, 4))
        for found, wanted in zip(
            shared.nodes(5, count, gain, scored), slow_sums(300, 7, 5, count, gain, scored), strict=True
        ):
            assert np.array_equal(found, wanted)


def test_shared_draws_change_no_comparison():
    rng = np.random.default_rng(1)
    shared = Bootstrap()
    for trials, levels in ((4, 1), (4, 3), (2, 2)):
        seen = rng.random((trials * levels, 150)) < 0.7
        a, b = hits(rng, 0.8, seen), hits(rng, 0.7, seen)
        sides = [[row[row >= 0].mean() for row in side] for side in (a, b)]
        given = dict(trial=np.repeat(np.arange(trials), levels), hits_a=list(a), hits_b=list(b))
        assert compare(*sides, **given, bootstrap=shared) == compare(*sides, **given)
        assert compare(*sides, **given, bootstrap=Bootstrap(500, 3)) == compare(*sides, **given, n_boot=500, seed=3)
