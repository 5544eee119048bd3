"""The error for a package that is missing and that only a part of asbc needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ImportError):
    """A package is missing that one of asbc's extras installs. The message names the extra."""


@contextmanager
def needed(by: str, extra: str) -> Iterator[None]:
    """Turn a missing package, imported within the block, into an error that names the extra to install.

    Parameters
    ----------
    by : str
        The name that the user knows for what needs the package.
    extra : str
        Name of the extra in ``pip install "asbc[...]"``; several are joined by commas.

    Raises
    ------
    MissingExtraError
        Instead of ModuleNotFoundError. A package that is installed but broken keeps its own error.

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
