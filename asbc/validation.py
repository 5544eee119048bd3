"""Check and convert arguments; errors say what was given and what is expected."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.floating]

METRICS = ("cosine", "euclidean")

MOST_NODES = 2**48  # more than any disk holds
MOST_REPETITIONS = 100_000  # permutations per node; the memory of a block grows with them
MOST_CLASSES = 1_000_000  # tables have a column for each
MOST_GRID = 100_000  # bandwidths per node
LARGEST_SEED = 2**63 - 1  # the largest int64
STRIP_BYTES = 32 * 2**20  # the largest temporary array of a pass over all rows
LARGEST_FLOAT = sys.float_info.max
SMALLEST_SIGMA, LARGEST_SIGMA = 1e-150, 1e150  # bandwidths whose squares neither underflow nor overflow


def as_vectors(X: ArrayLike | None, name: str = "X") -> Floats:
    """Return `X` as a finite, C-ordered (n, d) array of float32 or float64; `name` is used in error messages.

    float16 becomes float32, other types except float32 become float64. An array or memory map that needs no conversion
    is not copied.
    """
    X = plain_array(X, name)
    if X is None or isinstance(X, str | PathLike) or _is_sparse(X):
        raise TypeError(f"{name} must be a dense array; got {_what(X)}.")
    array = np.asarray(X)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got dtype {array.dtype}.")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"{name} must be 2-dimensional, a row per node and at least one column; got shape {array.shape}. "
            f"Reshape your data with {name}.reshape(-1, 1) if it has a single feature."
        )
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    array = np.ascontiguousarray(array, np.float32 if single else np.float64)
    step = max(1, STRIP_BYTES // (array.itemsize * array.shape[1]))
    for start in range(0, array.shape[0], step):
        finite = np.isfinite(array[start : start + step]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise ValueError(f"{name} must be finite; row {row} holds NaN or infinity.")
    return array


def estimator_vectors(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return `X` after scikit-learn's checks of shape, feature names and sparsity; `reset` records them.

    Values and precision are not checked: pass the result to :func:`as_vectors` or :func:`normalize`.
    """
    from sklearn.utils.validation import validate_data

    X = plain_array(X)
    dtype = np.asarray(X).dtype
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X must hold real numbers; got dtype {dtype}.")
    if X is None or (isinstance(X, np.ndarray | list | tuple | str | PathLike) and np.ndim(X) != 2):  # type: ignore[arg-type]
        as_vectors(X)  # type: ignore[arg-type]  # raises an error that is clearer than scikit-learn's
    return validate_data(estimator, X, dtype="numeric", ensure_all_finite=False, reset=reset)


def metric_vectors(estimator: Any, X: Any, *, reset: bool) -> Floats:
    """Return `X`, checked, as the estimator's metric compares it: with rows of unit length for ``"cosine"``.

    `reset` is True while fitting. It then issues a :class:`MetricWarning` if need be.
    """
    vectors = as_vectors(estimator_vectors(estimator, X, reset=reset))
    if reset:
        warn_about_lengths(vectors, estimator.metric)
    return normalize(vectors) if estimator.metric == "cosine" else vectors


def plain_array(X: Any, name: str = "X") -> Any:
    """Convert a tensor to an array; refuse a masked array with masked entries; return anything else unchanged."""
    if hasattr(X, "detach") and hasattr(X, "cpu"):
        X = X.detach().cpu()
        return (X.float() if "bfloat16" in str(X.dtype) else X).numpy()
    if isinstance(X, np.ma.MaskedArray):
        if np.ma.is_masked(X):
            raise ValueError(f"{name} must not be masked; {int(np.ma.count_masked(X))} of its entries are. Fill them.")
        return np.asarray(X)
    return X


def row_index(X: Any) -> Any:
    """Return the index of a pandas object, and None for anything else."""
    index = getattr(X, "index", None)
    return index if hasattr(index, "get_indexer") else None


def real_array(
    values: Any,
    name: str,
    shape: tuple[int | str, ...] | None = None,
    *,
    low: float | None = None,
    high: float = LARGEST_FLOAT,
    whole: bool = False,
) -> NDArray[Any]:
    """Return `values` as an array of float64, or of integers if `whole`; masked entries are refused.

    `shape` has the length of each axis, or a letter for any length. With `low`, entries are finite and from `low` to
    `high`.
    """
    values = plain_array(values, name)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in ("iu" if whole else "fiub"):
        raise TypeError(f"{name} must be {'whole' if whole else 'real'} numbers; got {_what(values)}.")
    if shape is not None:
        fits = array.ndim == len(shape) and (array.ndim == 1 or array.shape[1] > 0)
        if not fits or any(isinstance(want, int) and want != has for want, has in zip(shape, array.shape, strict=True)):
            wanted = str(shape).replace("'", "")
            raise ValueError(f"{name} must have shape {wanted}, one row per node; got {array.shape}.")
    array = array if whole else array.astype(np.float64, copy=False)
    if low is not None and array.size and not (array.min() >= low and array.max() <= high):
        row, *_ = bad = tuple(np.argwhere(~((array >= low) & (array <= high)))[0])
        limits = f"finite and at least {low}" if high == LARGEST_FLOAT else f"from {low} to {high}"
        raise ValueError(f"{name} must be {limits}; node {row} has {array[bad]}.")
    return array


def weight_rows(weights: Any, shape: tuple[int, ...] | None = None, name: str = "weights") -> NDArray[np.float64]:
    """Return weights as an (n, k) array of float64, finite and at least 0, of the given `shape` if any."""
    return real_array(weights, name, ("n", "k") if shape is None else shape, low=0)


def class_codes(codes: Any, n: int | None, *, least: int = 0) -> NDArray[np.int64]:
    """Return class codes (n,), each at least `least`, as int64; n = None accepts any number of nodes."""
    shape = ("n" if n is None else n,)
    return real_array(codes, "codes", shape, low=least, high=MOST_CLASSES - 1, whole=True).astype(np.int64)


def _is_sparse(value: Any) -> bool:
    """Return whether this is a SciPy sparse matrix, without importing SciPy."""
    return hasattr(value, "tocsr")


def square_graph(graph: Any, name: str = "graph") -> sparse.csr_array:
    """Return a graph as a CSR array (n, n) of finite real numbers of at least 0."""
    graph = plain_array(graph, name)
    if not (_is_sparse(graph) or isinstance(graph, np.ndarray)) or graph.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be a sparse matrix of real numbers; got {_what(graph)}.")
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or not graph.shape[0]:
        raise ValueError(f"{name} must be square and not empty; got shape {graph.shape}.")
    from scipy import sparse

    found = sparse.csr_array(graph)
    if found.nnz and not (found.data.min() >= 0 and found.data.max() < np.inf):
        raise ValueError(f"{name} must have finite entries of 0 or more; got {found.data.min()} to {found.data.max()}.")
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
        The name of the array in error messages.

    Returns
    -------
    (n, d) array
        float32 if `X` is float16 or float32, else float64.

    See Also
    --------
    search_neighbors : normalises rows if ``metric="cosine"``.

    Examples
    --------
    >>> import asbc
    >>> asbc.normalize([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """
    array = as_vectors(X, name)
    # Dividing each row by a power of two near its largest number is exact, and squares then neither overflow nor
    # underflow.
    largest = np.abs(array).max(axis=1, initial=0)
    if not largest.all():
        row = int(np.argmin(largest))
        raise ValueError(
            f"{name} cannot be normalised: row {row} is all zeros and has no direction. Drop such rows, or use "
            "metric='euclidean'."
        )
    array = np.ldexp(array, -np.frexp(largest)[1][:, None])
    norms = np.sqrt(np.einsum("ij,ij->i", array, array, dtype=np.float64))
    return (array / norms[:, None]).astype(array.dtype, copy=False)


class MetricWarning(UserWarning):
    """The rows of X differ so much in length that the metric decides what is near.

    It is issued if the 95th percentile of the lengths is more than 4 times the 5th, measured on up to 4,096 rows. The
    cosine metric ignores these differences, so points that differ in length only become the same. The euclidean metric
    lets them decide which rows are near; it does not warn with fewer than 16 columns, which are seldom embeddings.

    See Also
    --------
    GraphBuilder : its `metric` is the one in question.

    Examples
    --------
    >>> import asbc, numpy as np, warnings
    >>> X = np.random.default_rng(0).normal(size=(100, 2))  # points in the plane, not embeddings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     graph = asbc.GraphBuilder().fit_transform(X)
    >>> [warning.category.__name__ for warning in caught]
    ['MetricWarning']
    """


LENGTH_RATIO = 4.0  # between the 5th and the 95th percentile of the rows' lengths, above which MetricWarning is issued
EMBEDDING_COLUMNS = 16  # columns that embeddings have at least


def warn_about_lengths(X: NDArray[Any], metric: str, stacklevel: int = 4) -> None:
    """Issue a :class:`MetricWarning` if the rows of `X` differ much in length; up to 4,096 of them are read."""
    if metric == "euclidean" and X.shape[1] < EMBEDDING_COLUMNS:
        return
    rows = np.asarray(X[np.unique(np.linspace(0, len(X) - 1, 4096).astype(int))], np.float64)
    low, high = np.quantile(np.linalg.norm(rows / (np.abs(rows).max() or 1.0), axis=1), [0.05, 0.95])
    if high > LENGTH_RATIO * low:
        advice = "lets lengths decide which rows are near; for embeddings use metric='cosine'"
        if metric == "cosine":
            advice = "ignores that; if lengths matter, use metric='euclidean'"
        warnings.warn(
            f"the rows of X differ in length by more than a factor of {LENGTH_RATIO:g} (5th to 95th percentile), "
            f"and metric={metric!r} {advice}.",
            MetricWarning,
            stacklevel=stacklevel,
        )


class MetricInRepr:
    """Mixin for estimators whose repr names the metric even if it is the default."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]
        if "metric=" in text:
            return text
        comma = "" if text.endswith("()") else ", "
        metric = self.metric or "cosine"  # type: ignore[attr-defined]
        return f"{text[:-1]}{comma}metric={metric!r})"


def whole_number(value: Any, name: str, low: int, high: int | None = None, what: str = "") -> int:
    """Return `value` as an int between `low` and `high`; `what` describes the upper limit in error messages."""
    # Large ints are not exact as floats, so ints are not converted.
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    whole = whole and not isinstance(value, bool | np.bool_)
    if not whole or value < low or (high is not None and value > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}{what and ', ' + what}"
        raise ValueError(f"{name} must be a whole number {limits}; got {value!r}.")
    return int(value)


def seed_number(value: Any, name: str = "seed", what: str = "") -> int:
    """Return `value` as a seed, an int from 0 to LARGEST_SEED; `what` names alternatives in error messages."""
    return whole_number(value, name, 0, LARGEST_SEED, what)


def positive_number(value: Any, name: str) -> float:
    """Return `value` as a finite float above 0."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else 0.0
    except OverflowError:  # an int may be larger than any float
        number = np.inf
    if not 0 < number < np.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return number


def true_or_false(value: Any, name: str) -> bool:
    """Return `value` as a bool; refuse 0, 1 and "yes"."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def one_of(value: Any, name: str, choices: Sequence[Any]) -> Any:
    """Return `value`, which must be one of `choices`."""
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in choices):
        listed = [repr(choice) for choice in choices]
        raise ValueError(f"{name} must be {', '.join(listed[:-1])} or {listed[-1]}; got {value!r}.")
    return value


def check_k(k: Any, n: int, name: str = "k") -> int:
    """Return `k` as an int, at most n - 1."""
    k = whole_number(k, name, 1)
    if n <= k:
        raise ValueError(f"{name}={k} neighbours need more than {k} nodes; got n_samples = {n}.")
    return k


def numbers_per_node(values: ArrayLike, n: int, name: str) -> NDArray[np.float64]:
    """Return `values` as an (n,) array of positive numbers whose squares are finite and not 0."""
    return real_array(values, name, (n,), low=SMALLEST_SIGMA, high=LARGEST_SIGMA)


def sigma_per_node(sigma: ArrayLike, n: int, name: str = "sigma") -> NDArray[np.float64]:
    """Return bandwidths as an (n,) array; a single number applies to all nodes."""
    values = real_array(sigma, name)
    return numbers_per_node(np.full(n, values) if values.ndim == 0 else values, n, name)


def is_color(text: str) -> bool:
    """Whether a text is "#" and six hexadecimal digits."""
    return re.fullmatch("#[0-9a-fA-F]{6}", text) is not None
