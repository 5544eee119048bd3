"""What may come in: every argument checked and converted, or an error that says what came and what is wanted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.floating]

MOST_NODES = 2**48  # more than any disk holds
MOST_REPETITIONS = 100_000  # permutations per node; the memory of a block grows with them
MOST_CLASSES = 1_000_000  # tables have a column for each
MOST_GRID = 100_000  # bandwidths considered per node
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
    if X is None or _is_sparse(X):
        raise TypeError(f"{name} must be a dense array; got {'None' if X is None else 'a sparse matrix'}.")
    if isinstance(X, str | PathLike):
        raise TypeError(f"{name} must be an array; got a path, {str(X)!r}. Read it first, for example by numpy.load.")
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


def real_array(values: Any, name: str) -> NDArray[np.float64]:
    """`values` as an array of float64; what is masked, or is no real number, is refused."""
    values = plain_array(values, name)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in "fiub" or _is_sparse(values):
        raise TypeError(f"{name} must be a number or an array of real numbers; got {_what(values)}.")
    return array.astype(np.float64, copy=False)


def weight_rows(weights: Any, shape: tuple[int, ...] | None = None, name: str = "weights") -> NDArray[np.float64]:
    """Weights as an (n, k) array of float64, finite and at least 0; `shape` is the one wanted, None takes any."""
    array = real_array(weights, name)
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have the shape {shape} of the neighbours; got {array.shape}.")
    if array.ndim != 2 or not array.shape[1]:
        raise ValueError(f"{name} must have shape (n, k), a row per node; got {array.shape}.")
    # The smallest tells whether any is negative or NaN, the largest whether any is infinite.
    if array.size and not (array.min() >= 0 and array.max() < np.inf):
        good = np.isfinite(array) & (array >= 0)
        node = int(np.argmin(good.all(axis=1)))
        raise ValueError(f"{name} must be finite and at least 0; node {node} has {array[node][~good[node]][0]}.")
    return array


def neighbor_ids(indices: Any, n: int, name: str = "indices") -> NDArray[np.integer]:
    """Neighbours of each node as an (m, k) array of whole numbers that are among the `n` nodes there are."""
    array = np.asarray(plain_array(indices, name))
    if array.dtype.kind not in "iu" or array.ndim != 2 or not array.shape[1]:
        raise ValueError(f"{name} must be whole numbers of shape (n, k); got {array.dtype} of shape {array.shape}.")
    if array.size and (array.min() < 0 or array.max() >= n):
        row = int(np.argmax(((array < 0) | (array >= n)).any(axis=1)))
        raise ValueError(
            f"{name} must lie between 0 and {n - 1}; row {row} has {array[row].min()} to {array[row].max()}."
        )
    return array


def class_numbers(codes: Any, n: int | None, name: str = "codes", *, least: int = 0) -> NDArray[np.int64]:
    """Class numbers (n,) of n nodes, each of at least `least`, as int64; None for n takes any number of nodes."""
    array = np.asarray(plain_array(codes, name))
    if array.dtype.kind not in "iu" or array.ndim != 1 or n not in (None, len(array)):
        wanted = "(n,)" if n is None else f"({n},)"
        raise ValueError(f"{name} must be whole numbers of shape {wanted}; got {array.dtype} of shape {array.shape}.")
    if len(array) and (array.min() < least or array.max() >= MOST_CLASSES):
        found = f"{array.min()} to {array.max()}"
        raise ValueError(f"{name} must be class numbers from {least} to {MOST_CLASSES - 1}; got {found}.")
    return np.ascontiguousarray(array, np.int64)


def _is_sparse(value: Any) -> bool:
    """Whether this is a sparse matrix of SciPy; where its module was never imported, there is none."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and bool(module.issparse(value))


def square_graph(graph: Any, name: str = "graph") -> sparse.csr_array:
    """A graph as a CSR array (n, n) of real numbers, finite and at least 0."""
    graph = plain_array(graph, name)
    dense = isinstance(graph, np.ndarray) and graph.ndim == 2
    if not (_is_sparse(graph) or dense) or graph.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must be a sparse matrix of real numbers, one row and column per node; got {_what(graph)}."
        )
    if len(graph.shape) != 2 or graph.shape[0] != graph.shape[1] or not graph.shape[0]:
        raise ValueError(f"{name} must be square and not empty; got shape {graph.shape}.")
    from scipy import sparse

    found = sparse.csr_array(graph)
    if found.nnz and not (found.data.min() >= 0 and found.data.max() < np.inf):
        bad = int(np.flatnonzero(~(np.isfinite(found.data) & (found.data >= 0)))[0])
        row = int(np.searchsorted(found.indptr, bad, side="right")) - 1
        raise ValueError(f"{name} must have finite entries of 0 or more; node {row} has {found.data[bad]}")
    return found


def _what(value: Any) -> str:
    if isinstance(value, np.ndarray) or _is_sparse(value):
        return f"{type(value).__name__} of {value.dtype} and shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__}"


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
    # A large int is no float, so the two are told apart.
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    whole = whole and not isinstance(value, bool | np.bool_)
    if not whole or value < low or (high is not None and value > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}{what and ', ' + what}"
        raise ValueError(f"{name} must be a whole number {limits}; got {value!r}.")
    return int(value)


def seed_number(value: Any, name: str = "seed", what: str = "") -> int:
    """`value` as a seed: an int from 0 to the largest that compiled code takes; `what` says what else would do."""
    return whole_number(value, name, 0, LARGEST_SEED, what)


def positive_number(value: Any, name: str) -> float:
    """`value` as a float above 0."""
    number = 0.0
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # an int that is larger than any float
            number = float(value)
    if not 0 < number < np.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return number


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
    array = real_array(values, name)
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
    values = real_array(sigma, name)
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
