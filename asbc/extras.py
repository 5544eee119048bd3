"""What to install where a package is missing that only a part of asbc needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ImportError):
    """A package is missing that one of asbc's extras brings; the message says which."""


@contextmanager
def needed(by: str, extra: str) -> Iterator[None]:
    """Around imports of packages that an extra brings: says which extra, where one of them is missing.

    Parameters
    ----------
    by : str
        What needs them, as the user calls it.
    extra : str
        Name of the extra in ``pip install "asbc[...]"``; several are joined by commas.

    Raises
    ------
    MissingExtraError
        In place of the error that a package is missing. A package that is there and broken keeps its own error.

    Examples
    --------
    >>> from asbc.extras import needed
    >>> with needed("search='hnsw'", "scale"):
    ...     import no_such_package
    Traceback (most recent call last):
    asbc.extras.MissingExtraError: search='hnsw' needs no_such_package: pip install "asbc[scale]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "asbc"):
            raise
        raise MissingExtraError(f'{by} needs {package}: pip install "asbc[{extra}]"', name=package) from error
