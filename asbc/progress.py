"""Progress of long work: a bar in a terminal where rich is installed, one line per step otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any


class Progress:
    """Show steps on the standard error and time them.

    Parameters
    ----------
    shown : bool, default=True
        Whether to print anything. Steps are timed either way.

    Attributes
    ----------
    begun : float
        When it was created, by ``time.perf_counter()``.
    seconds : dict of str to float
        Time spent in each step, without the steps inside it.

    Examples
    --------
    >>> from asbc.progress import Progress
    >>> progress = Progress(shown=False)
    >>> with progress.step("search", total=3) as advance:
    ...     for block in range(3):
    ...         advance()
    >>> list(progress.seconds)
    ['search']
    """

    def __init__(self, shown: bool = True):
        self.shown = shown
        self.begun = time.perf_counter()
        self.seconds: dict[str, float] = {}
        self._nested: list[float] = []  # seconds of the steps inside each open step
        self._bar: Any = None

    @contextmanager
    def step(self, name: str, total: int | None = None, done: int = 0, unit: str = "blocks") -> Iterator[Any]:
        """Time a step, and show it while it runs.

        Parameters
        ----------
        name : str
            Shown in front of the bar or the line.
        total : int, optional
            Number of units of the step. None shows that it runs, without a bar.
        done : int, default=0
            Units that an earlier run has finished.
        unit : str, default="blocks"
            Plural name of the units.

        Yields
        ------
        advance : callable
            ``advance(count=1, text="")`` after each finished unit; `text` is shown after the name.
        """
        start = time.perf_counter()
        self._nested.append(0.0)
        count = done
        with self._show(name, total, done) as update:

            def advance(units: int = 1, text: str = "") -> None:
                nonlocal count
                count += units
                update(count, text)

            yield advance
        spent = time.perf_counter() - start
        own = spent - self._nested.pop()
        if self._nested:
            self._nested[-1] += spent
        self.seconds[name] = self.seconds.get(name, 0.0) + own
        if self.shown:
            amount = "done" if total is None else f"{count} of {total} {unit}"
            print(f"{name}: {amount}, {own:.1f} s", file=sys.stderr, flush=True)

    @contextmanager
    def _show(self, name: str, total: int | None, done: int) -> Iterator[Callable[[int, str], None]]:
        """Draw a bar in a terminal; a step inside another one shares its bar."""
        if not self.shown or not sys.stderr.isatty() or find_spec("rich") is None:
            yield lambda count, text: None
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress as Bar

        outermost = self._bar is None
        if outermost:
            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._bar.start()
        bar = self._bar
        task = bar.add_task(escape(name), total=total, completed=done)
        try:
            yield lambda count, text: bar.update(task, completed=count, description=escape(f"{name} {text}"))
        finally:
            bar.remove_task(task)
            if outermost:
                bar.stop()
                self._bar = None
