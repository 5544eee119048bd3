"""Entry points of the installed commands.

Each imports its packages late, names the extra to install if one is missing, and exits quietly on a closed pipe
(``| head -1``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TextIO

from asbc.extras import MissingExtraError, needed

CLOSED_PIPE = 141  # exit code that shells show for a tool that SIGPIPE ends


def run() -> None:
    """``asbc``: run experiments."""
    _exit(_load("asbc", "asbc.runs.command", "experiments").main)


def build() -> None:
    """``asbc-build``: build a graph from a file of vectors, block by block."""
    _exit(import_module("asbc.outofcore.command").main)


def embed() -> None:
    """``asbc-embed``: compute vectors of images."""
    _exit(_load("asbc-embed", "asbc.embeddings.command", "embed").main)


def pretrain() -> None:
    """``asbc-pretrain``: train encoders."""
    _exit(_load("asbc-pretrain", "asbc.train.command", "train").main)


def upload() -> None:
    """``asbc-upload``: send finished runs to W&B."""
    _exit(_load("asbc-upload", "asbc.runs.wandb", "wandb", "wandb").main)


def report() -> None:
    """``asbc-report``: write a page with the figures and tables of all results."""
    _exit(_load("asbc-report", "asbc.report.command", "experiments", "pandas", "pyarrow").main)


def explore() -> None:
    """``asbc-explore``: write an interactive page about your vectors."""
    _exit(_load("asbc-explore", "asbc.explore.command", "explore").main)


def _load(command: str, module: str, extra: str, *packages: str) -> Any:
    """Import the module of a command, after the packages that it imports late."""
    try:
        with needed("this command", extra):
            for package in packages:
                import_module(package)
            return import_module(module)
    except MissingExtraError as error:
        sys.exit(f"{command}: {error}")


def _exit(main: Callable[[], int | None]) -> NoReturn:
    """Call a command and exit with its code, or with `CLOSED_PIPE` if its output is not read to the end."""
    code: Any
    broken = None
    read_env()
    try:
        code = main()
    except SystemExit as stop:
        code = stop.code
    except BrokenPipeError as error:
        code, broken = CLOSED_PIPE, error
    # A line break shows whether a stream without a buffer is the one that broke.
    read = [_flush(stream, "\n" if broken else "") for stream in (sys.stdout, sys.stderr)]
    if broken and all(read):
        raise broken  # another pipe broke, such as one to a worker
    sys.exit(code or (0 if all(read) else CLOSED_PIPE))


def read_env(path: Path = Path(".env")) -> None:
    """Set the variables ``ASBC_*`` and ``WANDB_*`` of a file of lines ``NAME=value``, unless they are set already."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    found = []
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if equals and name.startswith(("ASBC_", "WANDB_")) and name not in os.environ:
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            os.environ[name] = value[1:-1] if quoted else value.partition(" #")[0].rstrip()
            found.append(name)
    if found:
        print(f"from {path}: {', '.join(found)}", file=sys.stderr)


def _flush(stream: TextIO, text: str) -> bool:
    """Write and flush, and return False if the reader is gone. The rest is discarded, because Python flushes again."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:  # BrokenPipeError; on Windows a plain OSError
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True
