"""The commands as they are installed. Each imports its packages late, and says in one line what to install if they are
missing: the core brings only those of ``asbc-build``. Each ends quietly where nobody reads on, as in ``| head -1``.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn, TextIO

from asbc.extras import MissingExtraError, needed

UNREAD = 141  # exit code where nobody reads on: what a shell shows of any tool that SIGPIPE ends


def run() -> None:
    """``asbc``: experiments."""
    _end(_loaded("asbc", "asbc.runs.command", "experiments").main)


def build() -> None:
    """``asbc-build``: a graph from a file of vectors, block by block."""
    _end(import_module("asbc.outofcore.command").main)


def embed() -> None:
    """``asbc-embed``: vectors from images."""
    _end(_loaded("asbc-embed", "asbc.embeddings.command", "embed").main)


def pretrain() -> None:
    """``asbc-pretrain``: encoders trained anew."""
    _end(_loaded("asbc-pretrain", "asbc.train.command", "train").main)


def upload() -> None:
    """``asbc-upload``: finished runs to W&B."""
    _end(_loaded("asbc-upload", "asbc.runs.upload", "wandb", "wandb").main)


def report() -> None:
    """``asbc-report``: figures and a page of all results."""
    _end(_loaded("asbc-report", "asbc.report.command", "experiments", "pandas").main)


def explore() -> None:
    """``asbc-explore``: a page on one's own vectors."""
    _end(_loaded("asbc-explore", "asbc.explore.command", "explore").main)


def _loaded(command: str, module: str, extra: str, *packages: str) -> Any:
    """The module of a command, once the packages that it imports late are known to be there too."""
    try:
        with needed("this command", extra):
            for package in packages:
                import_module(package)
            return import_module(module)
    except MissingExtraError as error:
        sys.exit(f"{command}: {error}")


def _end(main: Callable[[], int | None]) -> NoReturn:
    """Call a command, and exit as it says; with `UNREAD` where it went well but for output that nobody reads."""
    code: Any
    try:
        code = main()
    except SystemExit as stop:
        code = stop.code
    except BrokenPipeError:
        if not (_unread(sys.stdout) or _unread(sys.stderr)):
            raise  # another pipe broke, such as one to a worker
        code = UNREAD
    read = [_flush(stream) for stream in (sys.stdout, sys.stderr)]
    sys.exit(code or (0 if all(read) else UNREAD))


def _flush(stream: TextIO) -> bool:
    """Flush a stream; False if nobody reads it. Then the rest goes nowhere, for Python itself flushes once more."""
    try:
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


def _unread(stream: TextIO) -> bool:
    """Whether the other end of a stream is closed."""
    poll = select.poll()
    poll.register(stream, 0)  # of no interest but what is always told: errors
    return any(told & select.POLLERR for _, told in poll.poll(0))
