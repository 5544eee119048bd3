"""How far a build has come: a bar on a terminal, or a line in a log file now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BAR_CHARACTERS = 30  # width of a full bar
REDRAW_SECONDS = 0.1  # at least, between two drawings of a bar on a terminal
LOG_SECONDS = 20  # at least, between two lines where there is no terminal


class Progress:
    """A line per stage on the standard error.

    Parameters
    ----------
    shown : bool
        Whether to say anything at all.
    """

    def __init__(self, shown: bool):
        self.shown = shown
        self.terminal = shown and sys.stderr.isatty()
        self.seconds: dict[str, float] = {}
        self._within: list[float] = []  # for each open step, the seconds of those that ran within it

    @contextmanager
    def blocks(self, name: str, total: int, done: int = 0, of: str = "blocks") -> Iterator[Callable[[], None]]:
        """A stage of `total` blocks, `done` of which were done before; call what is yielded after each further one."""
        start = said = time.perf_counter()
        count = done

        def advance() -> None:
            nonlocal count, said
            count += 1
            now = time.perf_counter()
            if self.shown and now - said > (REDRAW_SECONDS if self.terminal else LOG_SECONDS):
                said = now
                left = (now - start) / (count - done) * (total - count)
                self._say(f"{count} of {total} {of}, {left:.0f} s left", name, count / total)

        if self.terminal:
            self._say(f"{count} of {total} {of}", name, count / total if total else 1.0)
        yield advance
        self._end(name, start, f"{count} of {total} {of}")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Work that is not cut into blocks: a line that says that it runs, and then how long it took.

        The time of a step within another counts as its own only.
        """
        start = time.perf_counter()
        self._within.append(0.0)
        if self.terminal:
            self._say("...", name)
        yield
        within = self._within.pop()
        if self._within:
            self._within[-1] += time.perf_counter() - start
        self._end(name, start + within, "done")

    def _say(self, text: str, name: str, share: float | None = None) -> None:
        if not self.terminal:
            print(f"{name}: {text}", file=sys.stderr, flush=True)
            return
        bar = "" if share is None else "#" * round(share * BAR_CHARACTERS)
        bar = f"[{bar:<{BAR_CHARACTERS}}] " if share is not None else ""
        print(f"\r\x1b[K{name:<10} {bar}{text}", end="", file=sys.stderr, flush=True)

    def _end(self, name: str, start: float, text: str) -> None:
        spent = time.perf_counter() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        if self.terminal:
            print(f"\r\x1b[K{name:<10} {text}, {spent:.1f} s", file=sys.stderr, flush=True)
