"""Bootstrap draws, made once and shared by every comparison that asks for them.

A comparison redraws trials and nodes some thousand times. The random numbers behind that depend on nothing but the
seed, so a report with hundreds of comparisons draws them once; each comparison gets the very numbers that it would
have drawn alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.kernels.poisson import KNOWN, PADDING, look_ahead, poisson_counts, steps_of
from asbc.validation import seed_number, whole_number

ROWS = 250  # draws worked on at a time, which bounds the memory
LOGS = 4096  # logarithms of factorials kept: up to the largest counts of some thousand nodes
KEPT = 2**24  # uniform numbers kept at most, 128 MiB; a comparison that needs more draws its own


@dataclass
class Bootstrap:
    """Draws of trials and of nodes; give one to many comparisons and it is drawn once.

    Parameters
    ----------
    n_boot : int, default=2000
        Draws.
    seed : int, default=0
        Of the draws.

    Attributes
    ----------
    kept : dict
        For those who compare the same numbers again: what came of it with these draws.

    See Also
    --------
    asbc.evaluate.compare : takes one.

    Examples
    --------
    >>> from asbc.evaluate import compare
    >>> from asbc.evaluate.bootstrap import Bootstrap
    >>> shared = Bootstrap()
    >>> compare([0.9, 0.8], [0.7, 0.7], bootstrap=shared) == compare([0.9, 0.8], [0.7, 0.7])
    True
    """

    n_boot: int = 2000
    seed: int = 0
    kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _streams: dict[int, _Stream] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        whole_number(self.n_boot, "n_boot", 1)
        seed_number(self.seed)

    def trials(self, count: int) -> NDArray[np.int64]:
        """(n_boot, count) how often each of `count` trials was drawn."""
        return self._stream(count).picks

    def nodes(
        self, trials: int, count: NDArray[np.int64], gain: NDArray[np.float64], scored: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over redrawn nodes, node by node drawn a Poisson number of times.

        Parameters
        ----------
        trials : int
            How many trials were drawn before: the draws of nodes follow them in the stream of random numbers.
        count : (kinds,) int array
            Nodes of each kind.
        gain, scored : (kinds, m) arrays of whole numbers
            What a node of each kind adds to each of m sums.

        Returns
        -------
        gain, scored : (n_boot, m) arrays
        """
        # Whole numbers this small are exact in single precision, whatever the order in which they are added.
        dtype = np.float32 if int(count.sum()) < 2**20 else np.float64
        both = np.concatenate([gain, scored], axis=1).astype(dtype)
        sums = np.empty((self.n_boot, both.shape[1]))
        low = 0
        for weight in self._stream(trials).counts(count.astype(np.int64), self.n_boot, dtype):
            sums[low : low + len(weight)] = weight @ both
            low += len(weight)
        return sums[:, : gain.shape[1]], sums[:, gain.shape[1] :]

    def _stream(self, trials: int) -> _Stream:
        if trials not in self._streams:
            self._streams[trials] = _Stream(self.n_boot, self.seed, trials)
        return self._streams[trials]


class _Stream:
    """The random numbers of one number of trials: first the trials, then a stream of uniforms for the nodes."""

    def __init__(self, n_boot: int, seed: int, trials: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.picks = self.rng.multinomial(trials, np.full(trials, 1 / trials), size=n_boot)
        self.after_trials = self.rng.bit_generator.state
        self.uniforms = np.empty(0)
        self.known = np.empty(1, np.uint32)
        self.logs = np.array([math.lgamma(count + 1.0) for count in range(LOGS)])

    def counts(self, rates: NDArray[np.int64], n_boot: int, dtype: type) -> Iterator[NDArray[Any]]:
        """Blocks of (rows, kinds) counts, `n_boot` rows in all."""
        blocks = [min(ROWS, n_boot - low) for low in range(0, n_boot, ROWS)]
        kinds = len(rates)
        # A count takes one uniform more than it is large; six standard deviations are never exceeded.
        mean = n_boot * float(rates.sum() + kinds)
        wanted = int(mean + 6 * math.sqrt(mean)) + 1000
        if wanted > KEPT:
            rng = np.random.default_rng()
            rng.bit_generator.state = self.after_trials
            yield from (rng.poisson(rates, (rows, kinds)).astype(dtype) for rows in blocks)
            return
        steps, others = steps_of(rates), rates[rates > KNOWN]
        out: NDArray[Any] = np.empty(blocks[0] * kinds + PADDING, dtype)
        place = 0
        for rows in blocks:
            end = -1
            while end < 0:
                self._extend(wanted)
                end = poisson_counts(self.uniforms, self.known, place, steps, others, self.logs, rows, out)
                wanted += wanted // 4 if end < 0 else 0
            place = end
            yield out[: rows * kinds].reshape(rows, kinds)  # the next block is written over it

    def _extend(self, wanted: int) -> None:
        """Make the stream at least so long, and work out what is known of its places."""
        before = len(self.uniforms)
        if wanted > before:
            uniforms, known = np.empty(wanted), np.empty(wanted + 1, np.uint32)
            uniforms[:before], known[:before] = self.uniforms, self.known[:before]
            self.rng.random(out=uniforms[before:])
            # Of the last places little was known, for the stream ended there.
            look_ahead(uniforms, max(0, before - 100), known)
            self.uniforms, self.known = uniforms, known
