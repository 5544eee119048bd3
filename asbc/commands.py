"""Entry points of the installed commands.

Each imports its packages late, names the extra to install if one is missing, and exits quietly on a closed pipe
(``| head -1``).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from asbc.extras import MissingExtraError, needed

CLOSED_PIPE = 141  # exit code that shells show for a tool that SIGPIPE ends


def run() -> None:
    """``asbc``: run experiments."""
    _run("asbc", "asbc.runs.command", "experiments")


def build() -> None:
    """``asbc-build``: build a graph from a file of vectors, block by block."""
    _run("asbc-build", "asbc.outofcore.command")


def embed() -> None:
    """``asbc-embed``: compute vectors of images."""
    _run("asbc-embed", "asbc.embeddings.command", "embed")


def pretrain() -> None:
    """``asbc-pretrain``: train encoders."""
    _run("asbc-pretrain", "asbc.train.command", "train")


def upload() -> None:
    """``asbc-upload``: send finished runs to W&B."""
    _run("asbc-upload", "asbc.runs.wandb", "wandb", "wandb")


def report() -> None:
    """``asbc-report``: write a page with the figures and tables of all results."""
    _run("asbc-report", "asbc.report.command", "experiments", "pandas", "pyarrow")


def explore() -> None:
    """``asbc-explore``: write an interactive page about your vectors."""
    _run("asbc-explore", "asbc.explore.command", "explore")


def _run(command: str, module: str, extra: str = "", *packages: str) -> NoReturn:
    """Import the module of a command, after the packages that it imports late, call it, and exit with its code.

    The code is `CLOSED_PIPE` if the output is not read to the end.
    """
    try:
        with needed("this command", extra):
            for package in packages:
                import_module(package)
            main = import_module(module).main
    except MissingExtraError as error:
        sys.exit(f"{command}: {error}")
    read_env()
    broken = None
    try:
        code = main()
    except SystemExit as stop:
        code = stop.code
    except BrokenPipeError as error:
        code, broken = CLOSED_PIPE, error
    try:
        sys.stdout.write("\n" if broken else "")  # without a buffer, a flush alone shows nothing
        sys.stdout.flush()
    except OSError:  # BrokenPipeError; on Windows a plain OSError
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # because Python flushes again
        sys.exit(code or CLOSED_PIPE)
    if broken:
        raise broken  # another pipe broke, such as one to a worker
    sys.exit(code)


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
