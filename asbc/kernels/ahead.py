"""Two cores compile: while this process compiles what a graph needs first, another one compiles what it needs later.

Numba compiles one function at a time in a process. So the first function that has to be compiled starts a second
process, which leaves what it compiles in the folder of compiled code, where this one finds it instead of compiling it.
That is a help and no more: where the second process cannot be started, fails, or takes too long, this one does all.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numba
import numpy as np

LONGEST_SECONDS = 60.0  # that the first process waits for the second one, all in all
PROGRAM = "import sys; sys.path[:] = {path!r}; from asbc.kernels.ahead import compile_all; compile_all()"


def _for_grid_search() -> None:
    """Compile what the search on the grid of bandwidths is made of, which is more than a third of it."""
    from asbc.kernels.criterion import next_grid_point
    from asbc.kernels.lanes import LANES
    from asbc.kernels.spectrum import WORK_PER_ROW, effective_ranks

    k = 2
    effective_ranks(np.ones(k * (k + 1) // 2 * LANES), k, np.empty(WORK_PER_ROW * k), np.empty(LANES))
    floats = np.ones(LANES)
    known = floats, floats, floats, floats, floats, np.zeros(LANES, np.int64)
    next_grid_point(floats, k, floats, 1.0, 1.0, 0, 0.0, *known)


def _for_weights() -> None:
    """Compile the weights of non-negative kernel regression."""
    from asbc.kernels.distances import pair_count
    from asbc.kernels.nnk import nnk_rows

    k = 2
    nnk_rows(np.ones((1, pair_count(k))), np.ones((1, k)), np.ones(1), 0, exact=True)


# What the second process compiles, in this order, by the name of the kernel that needs it. In this way both are done at
# about the same time.
LATER: dict[str, Callable[[], None]] = {"_search": _for_grid_search, "_rows_exactly": _for_weights}


class Helper:
    """A process that names on its standard output, a line each, the kernels whose turn has come.

    Parameters
    ----------
    command : sequence of str
    names : the kernels that it is known to see to
    longest : float
        Seconds from now after which nobody waits for it any more.
    """

    def __init__(self, command: Sequence[str], names: Sequence[str], longest: float = LONGEST_SECONDS) -> None:
        self._owner = os.getpid()
        self._given_up = time.monotonic() + longest
        self._done = {name: threading.Event() for name in names}
        nothing = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing, text=True)
        self._listener = threading.Thread(target=self._listen, name="asbc-ahead", daemon=True)
        self._listener.start()
        atexit.register(self.stop)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.strip() in self._done:
                    self._done[line.strip()].set()
        self.process.wait()
        for done in self._done.values():  # or never will be: either way there is nothing to wait for
            done.set()

    def wait_for(self, name: str) -> None:
        """Return as soon as this kernel is seen to, or the process has ended, or it has taken too long."""
        if name in self._done and os.getpid() == self._owner:  # a process that was forked has no listener
            self._done[name].wait(max(0.0, self._given_up - time.monotonic()))

    def stop(self) -> None:
        """End the process, if it is still there. What it was just compiling is lost, and nothing else."""
        if os.getpid() == self._owner:
            self.process.kill()
            self._listener.join()


_helper: Helper | None = None
_tried = False


def start(folder: Path | None) -> None:
    """Start the second process, once, if compiled code is kept in `folder` and there is a core for it."""
    global _helper, _tried
    if _tried:
        return
    _tried = True
    if folder is not None and _worth_it(folder):
        with suppress(OSError):  # no more processes, or none at all
            _helper = Helper([sys.executable, "-c", PROGRAM.format(path=sys.path)], list(LATER))


def _worth_it(folder: Path) -> bool:
    """Whether what it would compile is missing, and a second process of this interpreter may be started."""
    return (
        not all(any(folder.glob(f"*.{name}-*")) for name in LATER)
        and numba.config.NUMBA_NUM_THREADS > 1
        and multiprocessing.current_process().name == "MainProcess"  # workers are as many as there are cores already
        and not getattr(sys, "frozen", False)
        and Path(sys.executable or "").stem.lower().startswith("python")  # and not a program that contains Python
    )


def wait_for(name: str) -> None:
    """Wait for the second process if it has begun with the kernel of this name, or will soon."""
    if _helper is not None:
        _helper.wait_for(name)


def compile_all() -> None:
    """What the second process does."""
    global _tried
    _tried = True  # it starts no third one
    for name, compile_it in LATER.items():
        compile_it()
        print(name, flush=True)
