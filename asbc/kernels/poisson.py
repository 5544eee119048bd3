"""Poisson counts read off a stream of uniform numbers, exactly as NumPy's `Generator.poisson` reads them, compiled.

NumPy draws its uniforms as it goes. Read off a stream that is kept, the same uniforms serve any number of bootstraps.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

UNKNOWN = 255  # the stream ends before this count does
NONE = np.uint32(2**32 - 1)  # no four counts can be told
ONES = np.uint32(0x01010101)  # one in every byte
SURE = 10  # counts of rate 1 or 2 are hardly ever larger: eight in a million are


@njit(cache=True)
def counts_at(uniforms, begin, rate):
    """For every place of the stream from `begin` on: the count of a small rate that begins there.

    Such a count takes one uniform more than it is large, so the next one begins `count + 1` places on.

    Parameters
    ----------
    uniforms : (m,) float64
    begin : int
    rate : float

    Returns
    -------
    (m - begin,) uint8
        `UNKNOWN` where the stream is too short.
    """
    m = len(uniforms)
    out = np.empty(m - begin, np.uint8)
    least = math.exp(-rate)
    # Products only fall, so a count is how many of them are above the bound. The same number of them everywhere, and
    # no branch: the processor works on several places at once.
    for start in range(begin, m - SURE):
        product = uniforms[start]
        count = np.uint8(product > least)
        for step in range(1, SURE + 1):
            product *= uniforms[start + step]
            count += np.uint8(product > least)
        out[start - begin] = count
    for start in range(begin, m):
        if start < m - SURE and out[start - begin] <= SURE:
            continue
        product = 1.0
        count = 0
        place = start
        while True:
            if place == m:
                count = UNKNOWN
                break
            product *= uniforms[place]
            place += 1
            if product <= least:
                break
            count += 1
        out[start - begin] = count
    return out


@njit(cache=True)
def four_counts(units):
    """For every place of the stream: the four counts of rate 1 that follow each other from there, in one number.

    Each next count waits for the one before, which says where it begins. Four at a time, that is a quarter of the
    waiting.

    Parameters
    ----------
    units : (m,) uint8
        :func:`counts_at` of rate 1, of the whole stream.

    Returns
    -------
    (m,) uint32
        A byte per count, the first one lowest; `NONE` where one is unknown, or they take more than 255 places.
    """
    m = len(units)
    out = np.empty(m, np.uint32)
    beyond = np.full(m + 4 * (UNKNOWN + 1), UNKNOWN, np.uint8)  # so that nobody need ask whether the stream ends
    beyond[:m] = units
    for start in range(m):
        first = np.int64(beyond[start])
        second = np.int64(beyond[start + first + 1])
        third = np.int64(beyond[start + first + second + 2])
        fourth = np.int64(beyond[start + first + second + third + 3])
        packed = np.uint32(first | second << 8 | third << 16 | fourth << 24)
        out[start] = packed if first + second + third + fourth < 252 else NONE
    return out


@njit(cache=True)
def poisson_counts(uniforms, units, twos, fours, place, ahead, rates, ones, others):
    """Fill rows with counts, reading the stream from `place` on; counts of rate 1 apart from the others.

    Parameters
    ----------
    uniforms : (m,) float64
    units, twos : (m,) uint8
        :func:`counts_at` of rates 1 and 2, of the whole stream: most rates are these, and need not be worked out again.
    fours : (m,) uint32
        :func:`four_counts` of it.
    place : int
    ahead : (kinds + 1,) int64
        How many counts of rate 1 are read before each of the others, and after the last of them.
    rates : (kinds,) int64, 2 or more
    ones : (rows, sum of ahead + 4) uint8
        The last four columns hold nothing: four counts are written at once, over the end of a row too.
    others : (rows, kinds) float64

    Returns
    -------
    int
        Where the stream was left; -1 if it is too short.
    """
    m = len(uniforms)
    kinds = len(rates)
    bounds = _bounds(rates)
    for row in range(others.shape[0]):
        column = 0
        for kind in range(kinds + 1):
            left = ahead[kind]
            while left > 0:
                packed = fours[place] if place < m else NONE
                if packed != NONE:
                    taken = min(left, 4)
                    for number in range(4):
                        ones[row, column + number] = packed >> np.uint32(8 * number) & np.uint32(255)
                    # The product has the sum of all bytes in its highest one; those not taken are moved out first.
                    total = np.uint32((packed << np.uint32(8 * (4 - taken))) * ONES) >> np.uint32(24)
                    place += np.int64(total) + taken
                else:
                    if place >= m or units[place] == UNKNOWN:
                        return -1
                    taken = 1
                    ones[row, column] = units[place]
                    place += np.int64(units[place]) + 1
                column += taken
                left -= taken
            if kind == kinds:
                break
            if rates[kind] == 2:
                if place >= m or twos[place] == UNKNOWN:
                    return -1
                count = np.int64(twos[place])
                place += count + 1
            elif rates[kind] < 10:
                count, place = _small_count(uniforms, place, bounds[kind, 0])
            else:
                count, place = _large_count(uniforms, place, float(rates[kind]), bounds[kind])
            if place < 0:
                return -1
            others[row, kind] = count
    return place


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
def _large_count(uniforms, place, rate, bounds):
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
        if math.log(v) + log_inverse_alpha - math.log(a / (us * us) + b) <= (
            -rate + count * log_rate - math.lgamma(count + 1.0)
        ):
            return count, place
    return np.int64(0), -1
