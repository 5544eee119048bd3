"""Compiled inner loops: arrays in, arrays out."""

import numba

if numba.config.DISABLE_JIT:
    raise ImportError("asbc needs compiled code, and NUMBA_DISABLE_JIT=1 turns compilation off. Unset it.")
