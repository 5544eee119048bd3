"""Poisson counts read off a stream of uniform numbers, exactly as NumPy's `Generator.poisson` reads them, compiled.

NumPy draws its uniforms as it goes. Read off a stream that is kept, the same uniforms serve any number of bootstraps.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

UNKNOWN = 255  # the stream ends before this count does


@njit(cache=True)
def unit_counts(uniforms, begin):
    """For every place of the stream from `begin` on: the count of rate 1 that begins there.

    Such a count takes one uniform more than it is large, so the next one begins `count + 1` places on.

    Parameters
    ----------
    uniforms : (m,) float64
    begin : int

    Returns
    -------
    (m - begin,) uint8
        `UNKNOWN` where the stream is too short.
    """
    m = len(uniforms)
    out = np.empty(m - begin, np.uint8)
    least = math.exp(-1.0)
    for start in range(begin, m):
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
        :func:`unit_counts` of the whole stream.

    Returns
    -------
    (m,) uint32
        Five bits per count, and above them how many places the four take; 0 where one is too large or unknown.
    """
    m = len(units)
    out = np.zeros(m, np.uint32)
    for start in range(m):
        place = start
        packed = 0
        for number in range(4):
            if place >= m or units[place] > 31:
                packed = -1
                break
            packed |= np.int64(units[place]) << (5 * number)
            place += np.int64(units[place]) + 1
        if packed >= 0:
            out[start] = packed | (place - start) << 20
    return out


@njit(cache=True)
def poisson_counts(uniforms, units, fours, place, rates, out):
    """Fill rows with counts, one column per rate, reading the stream from `place` on.

    Parameters
    ----------
    uniforms : (m,) float64
    units : (m,) uint8
        :func:`unit_counts` of the whole stream: most rates are 1, and those need not be worked out again.
    fours : (m,) uint32
        :func:`four_counts` of it.
    place : int
    rates : (kinds,) int64, 1 or more
    out : (rows, kinds) float32 or float64

    Returns
    -------
    int
        Where the stream was left; -1 if it is too short.
    """
    m = len(uniforms)
    kinds = len(rates)
    ones = np.zeros(kinds + 1, np.int64)  # how many rates of 1 follow each other from here
    least = np.empty(kinds)
    for kind in range(kinds - 1, -1, -1):
        if rates[kind] == 1:
            ones[kind] = ones[kind + 1] + 1
        least[kind] = math.exp(-float(rates[kind]))
    for row in range(out.shape[0]):
        kind = 0
        while kind < kinds:
            rate = rates[kind]
            if ones[kind] >= 4 and place < m and fours[place] != 0:
                packed = np.int64(fours[place])
                out[row, kind] = packed & 31
                out[row, kind + 1] = packed >> 5 & 31
                out[row, kind + 2] = packed >> 10 & 31
                out[row, kind + 3] = packed >> 15 & 31
                place += packed >> 20
                kind += 4
                continue
            if rate == 1:
                if place >= m or units[place] == UNKNOWN:
                    return -1
                count = np.int64(units[place])
                place += count + 1
            elif rate < 10:
                product = 1.0
                count = np.int64(-1)
                while True:
                    if place == m:
                        return -1
                    product *= uniforms[place]
                    place += 1
                    count += 1
                    if product <= least[kind]:
                        break
            else:
                count, place = _large_count(uniforms, place, float(rate))
                if place < 0:
                    return -1
            out[row, kind] = count
            kind += 1
    return place


@njit(cache=True)
def _large_count(uniforms, place, rate):
    """A count of a rate of 10 or more, by Hoermann's transformed rejection; (count, next place or -1)."""
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2.0)
    log_rate = math.log(rate)
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
        if math.log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= (
            -rate + count * log_rate - math.lgamma(count + 1.0)
        ):
            return count, place
    return np.int64(0), -1
