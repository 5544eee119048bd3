"""Poisson counts read off a stream of uniform numbers, exactly as NumPy's `Generator.poisson` reads them, compiled.

NumPy draws its uniforms as it goes. Read off a stream that is kept, the same uniforms serve any number of bootstraps.
A count of a small rate takes one uniform more than it is large, and the next count begins there: so each has to wait
for the one before. To wait as little as possible, what follows from every place of the stream is worked out beforehand,
and counts of rate 1, which most are, are taken up to four in one step.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# What is known of each place: how far on the stream is after 1, 2, 3 and 4 counts of rate 1, and after one count of
# rate 2, 3 and 4; 0 where that is unknown. All of it stands in one number, each at its own bits.
KNOWN = 4  # rates up to this are looked up
SURE = 9  # counts up to this are; a count of rate 4 is larger once in 120 times, one of rate 1 once in ten million
SHIFT = np.array([0, 4, 9, 14, 20, 24, 28], np.uint32)
MASK = np.array([15, 31, 31, 63, 15, 15, 15], np.uint32)
FIRST = np.array([0, 0, 0, 0, 20, 24, 28], np.uint32)  # where the first count of the step is told
TAKEN = np.array([1, 2, 3, 4, 1, 1, 1], np.uint64)  # counts in the step
LEAST = np.exp([-1.0, -1.0, -1.0, -1.0, -2.0, -3.0, -4.0])  # a count ends where the product is no more than this
OTHER = 7  # the step of a rate that is not looked up
LEAST_1, LEAST_2, LEAST_3, LEAST_4 = (math.exp(-rate) for rate in range(1, KNOWN + 1))
BLOCK, BEYOND = 4096, 32  # places worked on at a time, and those after them that their four counts may reach
PADDING = 3  # numbers that `poisson_counts` writes beyond the last count


def steps_of(rates):
    """The steps in which a row of counts is read.

    Parameters
    ----------
    rates : (kinds,) int64 array, 1 or more

    Returns
    -------
    (steps,) uint8 array
        0 to 3: so many counts of rate 1, less one; 4 to 6: a count of rate 2, 3 or 4; `OTHER`: one of a higher rate.
    """
    other = np.flatnonzero(rates != 1)
    ones = np.diff(other, prepend=-1, append=len(rates)) - 1  # counts of rate 1 before each of the others, and at last
    ends = np.cumsum(-(-ones // 4) + 1) - 1  # the step of each of the others
    steps = np.full(ends[-1], 3, np.uint8)
    steps[ends[:-1]] = np.where(rates[other] <= KNOWN, rates[other] + 2, OTHER)
    steps[ends[ones > 0] - 1] = (ones[ones > 0] - 1) % 4
    return steps


@njit(cache=True)
def look_ahead(uniforms, begin, out):
    """Work out what is known of the places of a stream from `begin` on.

    Parameters
    ----------
    uniforms : (m,) float64
    begin : int
    out : (m + 1,) uint32
        Written from `begin` on; the place after the last one is known by nothing.
    """
    m = len(uniforms)
    alone = np.empty((KNOWN, BLOCK + BEYOND), np.uint8)
    for low in range(begin, m, BLOCK):
        size = min(BLOCK, m - low)
        sure = max(0, min(size + BEYOND, m - SURE - low))
        alone[:, sure:] = 0
        _one_count(uniforms[low : low + sure + SURE], alone[0], alone[1], alone[2], alone[3], sure)
        for start in range(size):
            others = np.uint32(0)
            for rate in range(2, KNOWN + 1):
                others |= np.uint32(alone[rate - 1, start]) << SHIFT[rate + 2]
            out[low + start] = _four_ones(alone[0], np.uint64(start)) | others
    out[m] = 0


@njit(cache=True)
def _one_count(uniforms, one, two, three, four, places):
    """How many uniforms a count of rate 1, 2, 3 and 4 takes at each place; 0 where they are more than `SURE + 1`."""
    for start in range(places):
        # Products only fall, so a count is how many of them are above the bound. The same number of them everywhere,
        # and no branch: the processor works on several places at once.
        product = uniforms[start]
        a, b = np.uint8(product > LEAST_1), np.uint8(product > LEAST_2)
        c, d = np.uint8(product > LEAST_3), np.uint8(product > LEAST_4)
        for step in range(1, SURE + 1):
            product *= uniforms[start + step]
            a += np.uint8(product > LEAST_1)
            b += np.uint8(product > LEAST_2)
            c += np.uint8(product > LEAST_3)
            d += np.uint8(product > LEAST_4)
        one[start] = a + np.uint8(1) if a <= SURE else np.uint8(0)
        two[start] = b + np.uint8(1) if b <= SURE else np.uint8(0)
        three[start] = c + np.uint8(1) if c <= SURE else np.uint8(0)
        four[start] = d + np.uint8(1) if d <= SURE else np.uint8(0)


@njit(cache=True)
def _four_ones(one, start):
    """How far on the stream is after one to four counts of rate 1, at the bits of each."""
    first = np.uint64(one[start])
    second = np.uint64(one[start + first])
    third = np.uint64(one[start + first + second])
    fourth = np.uint64(one[start + first + second + third])
    if first == 0:
        second = third = fourth = np.uint64(0)
    total = first
    out = np.uint32(first)
    for place, more in ((1, second), (2, third), (3, fourth)):
        if more == 0:
            break
        total += more
        out |= np.uint32(total) << SHIFT[place]
    return out


@njit(cache=True)
def poisson_counts(uniforms, known, place, steps, rates, logs, rows, out):
    """Read rows of counts, one after the other, from `place` on.

    Parameters
    ----------
    uniforms : (m,) float64
    known : (m + 1,) uint32
        From :func:`look_ahead`.
    place : int
    steps : (steps,) uint8
        From :func:`steps_of`.
    rates : (others,) int64
        Those that are not looked up, in their order.
    logs : (counts,) float64
        Logarithms of the factorials of 0, 1, ...; those that are not there are worked out.
    rows : int
    out : (rows * kinds + `PADDING`,) float32 or float64
        Row by row, in the order of the rates.

    Returns
    -------
    int
        Where the stream was left; -1 if it is too short.
    """
    bounds = _bounds(rates)
    # Without a sign: NumPy's way to count from the end would have to be asked about at every step.
    at, column = np.uint64(place), np.uint64(0)
    for _ in range(rows):
        kind = 0
        for step in steps:
            if step == OTHER:
                rate = rates[kind]
                if rate < 10:
                    count, place = _small_count(uniforms, np.int64(at), bounds[kind, 0])
                else:
                    count, place = _large_count(uniforms, np.int64(at), float(rate), bounds[kind], logs)
                if place < 0:
                    return -1
                out[column] = count
                at, column = np.uint64(place), column + np.uint64(1)
                kind += 1
                continue
            all_known = known[at]
            on = all_known >> SHIFT[step] & MASK[step]
            if on > 0:
                # Four counts are written, whatever the step takes: the next one writes over those too many.
                first, second = all_known & MASK[0], all_known >> SHIFT[1] & MASK[1]
                third, fourth = all_known >> SHIFT[2] & MASK[2], all_known >> SHIFT[3] & MASK[3]
                out[column] = np.int32(all_known >> FIRST[step] & MASK[0]) - np.int32(1)
                out[column + np.uint64(1)] = np.int32(second) - np.int32(first) - np.int32(1)
                out[column + np.uint64(2)] = np.int32(third) - np.int32(second) - np.int32(1)
                out[column + np.uint64(3)] = np.int32(fourth) - np.int32(third) - np.int32(1)
                at += np.uint64(on)
                column += TAKEN[step]
                continue
            for _ in range(TAKEN[step]):
                count, place = _small_count(uniforms, np.int64(at), LEAST[step])
                if place < 0:
                    return -1
                out[column] = count
                at, column = np.uint64(place), column + np.uint64(1)
    return np.int64(at)


@njit(cache=True)
def _small_count(uniforms, place, least):
    """A count of a rate below 10: how many products of uniforms are above `least`; (count, next place or -1)."""
    product = 1.0
    count = 0
    # Four at a time: where a count ends is chance, and a processor that guesses it wrong has to start again.
    while place + 4 <= len(uniforms):
        first = product * uniforms[place]
        second = first * uniforms[place + 1]
        third = second * uniforms[place + 2]
        product = third * uniforms[place + 3]
        if product <= least:
            more = np.int64(first > least) + np.int64(second > least) + np.int64(third > least)
            return count + more, place + more + 1
        count += 4
        place += 4
    while place < len(uniforms):
        product *= uniforms[place]
        place += 1
        if product <= least:
            return count, place
        count += 1
    return 0, -1


@njit(cache=True)
def _bounds(rates):
    """What every count of a rate is read with: exp(-rate) below 10, from there on five constants of the rejection."""
    out = np.empty((len(rates), 5))
    for kind in range(len(rates)):
        rate = float(rates[kind])
        b = 0.931 + 2.53 * math.sqrt(rate)
        out[kind, 0] = math.exp(-rate) if rate < 10 else b
        out[kind, 1] = -0.059 + 0.02483 * b
        out[kind, 2] = math.log(1.1239 + 1.1328 / (b - 3.4))
        out[kind, 3] = 0.9277 - 3.6224 / (b - 2.0)
        out[kind, 4] = math.log(rate)
    return out


@njit(cache=True)
def _large_count(uniforms, place, rate, bounds, logs):
    """A count of a rate of 10 or more, by Hoermann's transformed rejection; (count, next place or -1)."""
    b, a, log_inverse_alpha, v_r, log_rate = bounds[0], bounds[1], bounds[2], bounds[3], bounds[4]
    while place + 1 < len(uniforms):
        u = uniforms[place] - 0.5
        v = uniforms[place + 1]
        place += 2
        us = 0.5 - abs(u)
        count = np.int64(math.floor((2.0 * a / us + b) * u + rate + 0.43))
        if us >= 0.07 and v <= v_r:
            return count, place
        if count < 0 or (us < 0.013 and v > us):
            continue
        log_factorial = logs[count] if count < len(logs) else math.lgamma(count + 1.0)
        if math.log(v) + log_inverse_alpha - math.log(a / (us * us) + b) <= -rate + count * log_rate - log_factorial:
            return count, place
    return np.int64(0), -1
