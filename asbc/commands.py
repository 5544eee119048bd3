"""The commands as they are installed. Each imports its packages late, and says in one line what to install if they are
missing: the core brings only those of ``asbc-build``.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Any

from asbc.extras import MissingExtraError, needed


def run() -> None:
    """``asbc``: experiments."""
    sys.exit(_loaded("asbc", "asbc.runs.command", "experiments").main())


def build() -> None:
    """``asbc-build``: a graph from a file of vectors, block by block."""
    sys.exit(import_module("asbc.outofcore.command").main())


def embed() -> None:
    """``asbc-embed``: vectors from images."""
    sys.exit(_loaded("asbc-embed", "asbc.embeddings.command", "embed").main())


def pretrain() -> None:
    """``asbc-pretrain``: encoders trained anew."""
    sys.exit(_loaded("asbc-pretrain", "asbc.train.command", "train").main())


def upload() -> None:
    """``asbc-upload``: finished runs to W&B."""
    sys.exit(_loaded("asbc-upload", "asbc.runs.upload", "wandb", "wandb").main())


def report() -> None:
    """``asbc-report``: figures and a page of all results."""
    # It lives for seconds and leaves next to no cycles behind: to look for them, on the way and at the end, would take
    # a tenth of its time.
    gc.disable()
    code = _loaded("asbc-report", "asbc.report.command", "experiments").main()
    gc.freeze()
    sys.exit(code)


def explore() -> None:
    """``asbc-explore``: a page on one's own vectors."""
    sys.exit(_loaded("asbc-explore", "asbc.explore.command", "explore").main())


def _loaded(command: str, module: str, extra: str, *packages: str) -> Any:
    """The module of a command, once the packages that it imports late are known to be there too."""
    try:
        with needed("this command", extra):
            for package in packages:
                import_module(package)
            return import_module(module)
    except MissingExtraError as error:
        sys.exit(f"{command}: {error}")
