"""Build a graph on disk block by block, from more vectors than fit into memory, and open the result.

`driver` runs the stages in order, `stages` has the work of one block, `plan` the settings that a resumed build must
repeat, and `engines` runs blocks in this process or on a Dask cluster. `folder` opens the finished graph, and
`command` is ``asbc-build``.
"""

from asbc.outofcore.driver import build_graph
from asbc.outofcore.folder import load_graph, load_nodes, load_rows, read_graph_manifest
from asbc.outofcore.plan import BuildError, EngineError

__all__ = ["BuildError", "EngineError", "build_graph", "load_graph", "load_nodes", "load_rows", "read_graph_manifest"]
