"""What may come in: every argument checked and converted, or an error that says what came and what is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Floats = NDArray[np.floating]

LARGEST_SEED = 2**63 - 1  # the largest whole number that compiled code takes
STRIP_BYTES = 32 * 2**20  # bytes, 32 MB: the largest temporary array that a pass over all rows makes


def as_vectors(X: ArrayLike | None, name: str = "X") -> Floats:
    """`X` as a C-ordered (n, d) array of float32 or float64, after a check that it is finite.

    float16 becomes float32, everything else that is not float32 becomes float64. An array, or memory map, that has
    the right form already is returned as it is, not copied.

    Parameters
    ----------
    X : (n, d) array of any real dtype
        The vectors.
    name : str, default="X"
        What error messages call the array.

    Returns
    -------
    (n, d) array of float32 or float64
    """
    X = plain_array(X, name)
    if X is None or sparse.issparse(X):
        raise TypeError(f"{name} must be a dense array; got {'None' if X is None else 'a sparse matrix'}.")
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.dtype == object:
        raise TypeError(f"{name} must be a numeric array; got dtype object. Convert it with {name}.astype(float).")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got dtype {array.dtype}.")
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be 2-dimensional, one row per node; got shape {array.shape}. Reshape your data "
            f"with {name}.reshape(-1, 1) if it has a single feature."
        )
    if array.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column; got shape {array.shape}.")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 4:
        array = np.ascontiguousarray(array, np.float32)
    else:
        array = np.ascontiguousarray(array, np.float64)
    step = max(1, STRIP_BYTES // (array.itemsize * array.shape[1]))
    for start in range(0, array.shape[0], step):
        finite = np.isfinite(array[start : start + step]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise ValueError(f"{name} must be finite; row {row} holds NaN or infinity.")
    return array


def plain_array(X: Any, name: str = "X") -> Any:
    """`X` without what only its own library understands: a tensor becomes an array on this machine.

    A masked array is refused unless it masks nothing: its hidden values would count.
    """
    if hasattr(X, "detach") and hasattr(X, "cpu"):
        X = X.detach().cpu()
        return (X.float() if "bfloat16" in str(X.dtype) else X).numpy()
    if isinstance(X, np.ma.MaskedArray):
        if np.ma.is_masked(X):
            raise ValueError(f"{name} must not be masked; {int(np.ma.count_masked(X))} of its entries are. Fill them.")
        return np.asarray(X)
    return X


def normalize(X: ArrayLike, name: str = "X") -> Floats:
    """Scale the rows of `X` to unit length.

    Parameters
    ----------
    X : (n, d) array of any real dtype
        The vectors. A row of zeros is an error: it has no direction.
    name : str, default="X"
        What error messages call the array.

    Returns
    -------
    (n, d) array
        float32 if `X` is float16 or float32, else float64.

    See Also
    --------
    search_neighbors : with ``metric="cosine"`` it normalises by itself.

    Examples
    --------
    >>> import asbc
    >>> asbc.normalize([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """
    array = as_vectors(X, name)
    # Each row is first divided by a power of two that brings its largest number near 1. That rounds nothing, and
    # squares then neither overflow nor vanish.
    largest = np.abs(array).max(axis=1, initial=0)
    if not largest.all():
        row = int(np.argmin(largest))
        raise ValueError(f"{name} cannot be normalised: row {row} is all zeros. Drop such rows first.")
    array = np.ldexp(array, -np.frexp(largest)[1][:, None])
    norms = np.sqrt(np.einsum("ij,ij->i", array, array, dtype=np.float64))
    return (array / norms[:, None]).astype(array.dtype, copy=False)


def whole_number(value: Any, name: str, low: int, high: int | None = None, what: str = "") -> int:
    """`value` as an int between `low` and `high`; `what` says in words what the upper limit is."""
    whole = isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()
    if not whole or value < low or (high is not None and value > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}{what and ', ' + what}"
        raise ValueError(f"{name} must be a whole number {limits}; got {value!r}.")
    return int(value)


def positive_number(value: Any, name: str) -> float:
    """`value` as a float above 0."""
    if not isinstance(value, Real) or isinstance(value, bool) or not np.isfinite(float(value)) or value <= 0:
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def true_or_false(value: Any, name: str) -> bool:
    """`value` as a bool; 0, 1 and "yes" are refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def one_of(value: Any, name: str, choices: Sequence[Any]) -> Any:
    """`value`, which must be one of `choices`."""
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in choices):
        listed = [repr(choice) for choice in choices]
        raise ValueError(f"{name} must be {', '.join(listed[:-1])} or {listed[-1]}; got {value!r}.")
    return value


def check_k(k: Any, n: int, name: str = "k") -> int:
    """`k` as an int, after a check that each of n nodes has that many other nodes."""
    k = whole_number(k, name, 1)
    if n <= k:
        raise ValueError(f"{name}={k} neighbours need more than {k} nodes; got n_samples = {n}.")
    return k


def numbers_per_node(values: ArrayLike, n: int, name: str) -> NDArray[np.float64]:
    """`values` as an (n,) array of positive, finite numbers."""
    array = np.asarray(values, float)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one number per node; got {array.shape}.")
    good = np.isfinite(array) & (array > 0)
    if not good.all():
        bad = int(np.argmin(good))
        raise ValueError(f"{name} must be positive and finite; node {bad} has {array[bad]}.")
    return array


SMALLEST_SIGMA, LARGEST_SIGMA = 1e-150, 1e150  # bandwidths whose squares neither vanish nor overflow


def sigma_per_node(sigma: ArrayLike, n: int, name: str = "sigma") -> NDArray[np.float64]:
    """Bandwidths as an (n,) array; one number stands for all nodes."""
    try:
        values = np.asarray(sigma, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or an array of numbers; got {sigma!r}.") from None
    one = values.ndim == 0
    if one:
        values = np.full(n, float(values))
    if values.shape != (n,):
        raise ValueError(f"{name} must be one number or have shape ({n},), one per node; got {values.shape}.")
    good = np.isfinite(values) & (values > 0)
    if not good.all():
        bad = int(np.argmin(good))
        raise ValueError(f"{name} must be positive and finite; node {bad} has {values[bad]}.")
    good = (values >= SMALLEST_SIGMA) & (values <= LARGEST_SIGMA)
    if not good.all():
        bad = int(np.argmin(good))
        where = f"got {values[bad]}" if one else f"node {bad} has {values[bad]}"
        raise ValueError(
            f"{name} must lie between {SMALLEST_SIGMA:g} and {LARGEST_SIGMA:g}, where its square is a number; "
            f"{where}. Scale X."
        )
    return values
