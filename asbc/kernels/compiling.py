"""What happens while numba compiles: the user is told, once, a second core helps, and the garbage collector rests.

Compiling makes many small objects, most of which stay. Looking through them for garbage, again and again, would take
about a tenth of the time.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from numba.core import event

from asbc.kernels import ahead

MESSAGE = "asbc: compiling the inner loops that this needs, once for this version: 10 to 15 seconds for a first graph\n"


class Watch(event.Listener):
    """Hears when numba starts and ends compiling functions of one package; numba compiles on one thread at a time."""

    def __init__(self, package: str, folder: Path | None = None):
        self._package = package
        self._folder = folder
        self._told = False
        self._depth = 0
        self._collecting = False

    def _ours(self, happened) -> bool:
        # Other libraries compile functions that they made up on the way, of no module.
        function = getattr(happened.data.get("dispatcher"), "py_func", None)
        return self._depth > 0 or str(getattr(function, "__module__", None)).startswith(self._package)

    def on_start(self, happened) -> None:
        if not self._ours(happened):
            return
        self._depth += 1
        if self._depth == 1:
            self._collecting = gc.isenabled()
            gc.disable()
            if not self._told and (sys.stderr.isatty() or "ipykernel" in sys.modules):
                sys.stderr.write(MESSAGE)
                sys.stderr.flush()
            self._told = True
            ahead.start(self._folder)

    def on_end(self, happened) -> None:
        if not self._ours(happened):
            return
        self._depth -= 1
        if self._depth == 0 and self._collecting:
            gc.enable()


def watch(package: str, folder: Path | None) -> None:
    """Do all this whenever functions of `package` are compiled; `folder` is where they are kept, if anywhere."""
    event.register("numba:compile", Watch(package, folder))
