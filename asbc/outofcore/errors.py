"""What can stop a build: its exceptions."""


class BuildError(RuntimeError):
    """A build cannot go on; what it has written so far stays, and the next start goes on from there.

    See Also
    --------
    build_graph : raises it.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from asbc.build import BuildError, build_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.zeros((60, 3)))
    ...     pathlib.Path(folder, "taken").touch()
    ...     try:
    ...         build_graph(f"{folder}/vectors.npy", f"{folder}/taken")
    ...     except BuildError as error:
    ...         print(str(error).removeprefix(folder))
    /taken: a file; the build needs a folder of its own.
    """


class VectorsChangedError(BuildError):
    """The vectors are not those that the build began with."""


class EngineError(BuildError):
    """The Dask cluster cannot do the work: its scheduler or its workers are missing, or cannot see the files.

    See Also
    --------
    build_graph : raises it, with ``engine="dask"``.

    Examples
    --------
    >>> from asbc.build import BuildError, EngineError
    >>> issubclass(EngineError, BuildError)
    True
    """
