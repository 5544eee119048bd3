"""Where everything is in a build's folder: the plan, the memory maps, and the part of each stage and block."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.bandwidth import Bandwidth
from asbc.checksums import first_changed
from asbc.dimension import Dimension
from asbc.neighbors.external import HNSW, CandidateTable
from asbc.neighbors.lists import InvertedLists
from asbc.neighbors.types import Neighbors
from asbc.outofcore.arrays import GraphFileError, open_array, read_json, read_notes, read_part
from asbc.outofcore.plan import converted, rule_from_json
from asbc.validation import Floats
from asbc.weights import Weights

MADE_ANEW = "Remove it and start again, and it is made anew."


class BuildFolder:
    """A build's folder as its blocks see it: the plan, the memory maps, and where the parts are.

    Parameters
    ----------
    folder : Path
        The build's folder, in which ``plan.json`` is written.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.scratch = folder / "scratch"
        self.converted = self.scratch / "vectors.npy"
        self.plan = read_json(folder / "plan.json")

    @property
    def weighted(self) -> bool:
        """Whether there is a bandwidth at all; uniform weights have none."""
        return self.plan["bandwidth"] is not None

    def part(self, stage: str, block: int) -> Path:
        """The file that a block of a stage writes."""
        return self.scratch / stage / f"{block:06d}.{'npy' if stage in ('lists', 'transpose') else 'npz'}"

    def parts(self, stage: str) -> list[Path]:
        """The files of all blocks of a stage, in order."""
        return [self.part(stage, block) for block in range(self.count(stage))]

    def count(self, stage: str) -> int:
        """How many blocks a stage has; those of ``lists`` are groups of lists, all others are blocks of nodes."""
        if stage == "lists":
            return len(self.array("first_lists")) - 1
        return -(-self.plan["n"] // self.plan["block"])

    def nodes(self, block: int) -> tuple[int, int]:
        """The first node of a block, and the node after its last."""
        start = block * self.plan["block"]
        return start, min(start + self.plan["block"], self.plan["n"])

    def array(self, name: str) -> NDArray:
        """An array that belongs to no block, as a memory map."""
        return open_part(self.scratch / f"{name}.npy")

    def open_source(self) -> NDArray:
        """The vectors as they were given (n, d): a new memory map, of the file that has their name now.

        Pages of a map count as memory of the process for as long as it is open. So whoever looks through the vectors
        once opens a map, and lets go of it.
        """
        path = Path(read_json(self.scratch / "source.json")["path"])
        return open_array(path, self.plan["dtype"], (self.plan["n"], self.plan["d"]))

    @functools.cached_property
    def X(self) -> Floats:
        """The vectors as kernels read them (n, d): float32 or float64, of unit length if the metric is cosine."""
        return open_array(self.converted) if converted(self.plan) else self.open_source()

    @functools.cached_property
    def center(self) -> float:
        """The median bandwidth, which is known once the stage ``rows`` is done."""
        return float(np.median(self.array("filled")))

    @functools.cached_property
    def search(self) -> dict[str, Any]:
        """How neighbours are searched: the kind, its options, and the recall they were chosen for."""
        return _read_note(self.scratch / "search.json")

    @functools.cached_property
    def rule(self) -> Bandwidth:
        """The rule for sigma, once it is resolved to one that looks at nodes one by one."""
        return self.rule_after(int(_read_note(self.scratch / "rule.json")["surveys"]))

    def rule_after(self, surveys: int) -> Bandwidth:
        """The rule for sigma after that number of surveys of all blocks; after 0 it is the rule of the plan."""
        if surveys == 0:
            return rule_from_json(self.plan["bandwidth"])
        folder = self.scratch / f"rule-{surveys}"
        return rule_from_json(_read_note(folder / "rule.json"), folder)

    @functools.cached_property
    def weights(self) -> Weights:
        """The rule for weights."""
        return rule_from_json(self.plan["weights"])

    @functools.cached_property
    def dimension(self) -> Dimension:
        """The estimate of dimension, resolved to one that looks at nodes one by one."""
        settings = self.plan["builder"]
        estimate = Dimension(settings["dimension"], n_rep=settings["n_rep"], k=min(10, self.plan["k"]))
        return estimate if estimate.local else estimate.resolve({"log_ratio": self.array("log_ratio")})

    def neighbors(self, block: int) -> Neighbors:
        """The neighbours that were found for a block."""
        indices, distances = read_part(self.part("neighbors", block), "indices", "distances")
        return Neighbors(indices, distances, first=self.nodes(block)[0])

    @functools.cached_property
    def index(self):
        """The index that finds candidates, as :func:`asbc.neighbors.search.build_index` has; None for exact search."""
        search, options = self.search["search"], self.search["options"]
        if search == "ivf":
            return InvertedLists(
                self.array("centroids"),
                self.array("starts"),
                self.array("members"),
                self.array("first_lists"),
                [open_part(path) for path in self.parts("lists")],
                self.array("probes"),
            )
        if search == "hnsw":
            path = self.scratch / "index.faiss"
            try:
                return HNSW.open(path, options["ef_search"])
            except RuntimeError as error:
                raise GraphFileError(f"{path}: damaged ({error}). {MADE_ANEW}") from error
        if search == "nn_descent":
            return CandidateTable(self.array("candidates"))
        return None


def open_part(path: Path, dtype: Any = None) -> NDArray:
    """A scratch array as a memory map; the error of a damaged one says that it may be removed."""
    try:
        return open_array(path, dtype)
    except GraphFileError as error:
        raise GraphFileError(f"{error} {MADE_ANEW}") from error


def _read_note(path: Path) -> dict[str, Any]:
    """A small JSON file of scratch; the error of a damaged one says that it may be removed."""
    try:
        return read_json(path, checked=True)
    except GraphFileError as error:
        raise GraphFileError(f"{error} {MADE_ANEW}") from error


def check_scratch(scratch: Path) -> None:
    """Refuse scratch arrays that are not as an earlier start wrote them; the error says what to remove."""
    changed = first_changed(read_notes(scratch))
    if changed is not None:
        place = changed.relative_to(scratch).parts[0]
        # The arrays of a rule are made together with the file that names them.
        removed = scratch / place if place.startswith("rule-") else "it"
        raise GraphFileError(
            f"{changed}: damaged (its checksum is not that of what was written). Remove {removed} and start again, and "
            "it is made anew."
        )


def opened(folder: str) -> BuildFolder:
    """A build's folder, with its maps and its index kept open from block to block.

    Every start of a build writes ``source.json`` anew. A worker of a cluster may outlive one start and serve the next;
    it then sees that the file was written at another time, and opens the folder afresh.
    """
    return _opened(folder, os.stat(os.path.join(folder, "scratch", "source.json")).st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _opened(folder: str, time_written: int) -> BuildFolder:
    return BuildFolder(Path(folder))
