"""Compiled inner loops: arrays in, arrays out.

`compiled` compiles them and caches the result, `threads` runs them on all cores, and `lanes` is their SIMD type.
`distances` and `nearest` are for the search, `mst` for the dimension, `spectrum`, `criterion` and `perplexity` for
bandwidths, `nnk` for weights, `propagate` for labels, and `modularity` joins nodes of large graphs before clustering.
"""

import numba

if numba.config.DISABLE_JIT:
    raise ImportError("asbc needs compiled code, and NUMBA_DISABLE_JIT=1 turns compilation off. Unset it.")
