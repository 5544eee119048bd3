"""The folder of configs, the methods that are composed from them, and the user's own folders of configs."""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asbc.extras import MissingExtraError
from asbc.storage import explain_write_error

WEIGHTS = ("gaussian", "nnk")  # that each bandwidth rule is combined with


@functools.cache
def conf_dir() -> Path:
    """The folder of configs: inside an installed package, or at the top of a checkout.

    The first call also registers the composed methods with Hydra.
    """
    here = Path(__file__).resolve().parent
    for place in (here / "conf", here.parent / "conf"):
        if (place / "config.yaml").exists():
            _register_methods(place)
            return place
    raise FileNotFoundError(f"no conf/config.yaml in {here} or next to it; is the installation complete?")


def composed_methods() -> list[str]:
    """Names of the methods ``<rule>_<weights>``: every rule of `conf/bandwidth` with each kind of weights."""
    return [f"{path.stem}_{kind}" for path in sorted((conf_dir() / "bandwidth").glob("*.yaml")) for kind in WEIGHTS]


def _register_methods(folder: Path) -> None:
    """Make ``method=perplexity_gaussian`` an option of Hydra, as if there were such a file in `conf/method`."""
    from hydra.core.config_store import ConfigStore

    for path in (folder / "bandwidth").glob("*.yaml"):
        for kind in WEIGHTS:
            node = {
                "defaults": [{"/bandwidth@bandwidth": path.stem}, "_self_"],
                "_target_": "asbc.evaluate.Method",
                "weights": kind,
            }
            name = f"{path.stem}_{kind}"
            ConfigStore.instance().store(name, node, group="method", package=f"methods.{name}", provider="asbc")


def import_own_modules() -> list[str]:
    """Put the folders of ``--config-dir`` and ``hydra.searchpath`` on the import path, after the installed packages.

    It is called in the jobs of Hydra, so that workers of a sweep find the modules too. Returns the flags to type again.
    """
    from hydra.core.hydra_config import HydraConfig

    context = HydraConfig.get()
    flags = [each for each in context.overrides.hydra if each.lstrip("+").startswith("hydra.searchpath=")]
    for source in context.runtime.config_sources:
        if source.schema == "file" and source.provider.startswith(("command-line", "hydra.searchpath")):
            folder = os.path.abspath(source.path)
            if folder not in sys.path:
                sys.path.append(folder)
            if source.provider == "command-line":
                near = os.path.relpath(folder)
                flags = ["--config-dir", folder if near.startswith("..") else near, *flags]
    return flags


def keys_of(node: Any, prefix: str = "") -> list[str]:
    """All keys in a part of the config, by dotted path."""
    from omegaconf import OmegaConf

    tree: Any = OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
    found = []
    for key, value in tree.items():
        found += [f"{prefix}{key}", *(keys_of(value, f"{prefix}{key}.") if isinstance(value, dict) else [])]
    return found


def closest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the closest of the known names, empty if none is close."""
    close = difflib.get_close_matches(name, [other for other in known if other != name], 1)
    return f"; did you mean {close[0]}?" if close else ""


def build(node: Any, name: str, **kwargs: Any) -> Any:
    """Instantiate a part of the config; an error about its module or its parameters names the part."""
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    try:
        return instantiate(node, **kwargs)
    except InstantiationException as error:
        cause: BaseException | None = error.__cause__
        if isinstance(cause, TypeError | ValueError):
            _, _, unknown = str(cause).partition("unexpected keyword argument ")
            known = {key.rpartition(".")[2] for key in keys_of(OmegaConf.to_container(node, resolve=True))}
            close = closest(unknown.strip("'"), sorted(known)) if unknown else ""
            raise ValueError(f"{name}: {cause}{close}") from error
        if isinstance(cause, OSError | MissingExtraError):
            raise cause from None
        while cause is not None and not isinstance(cause, ModuleNotFoundError):
            cause = cause.__cause__
        if cause is not None and "locating target" in str(error):
            raise ValueError(
                f"{name}: there is no module {cause.name}; --config-dir FOLDER finds modules in FOLDER, and "
                "PYTHONPATH=FOLDER those of any other folder"
            ) from error
        raise


FAILED: list[str] = []  # errors of the failed jobs of a sweep


@contextmanager
def job_errors(command: str, out: str = "") -> Iterator[None]:
    """Exit with the error of a job as one line; in a sweep, print it and let the other jobs run.

    `out` is the folder of a job that resumes after an error.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    try:
        yield
    except (MissingExtraError, ValueError, OSError) as error:
        explained = explain_write_error(error) if out and isinstance(error, OSError) else None
        message = f"{out}: {explained}; the same command resumes" if explained else str(error)
        context = HydraConfig.get()
        if context.mode != RunMode.MULTIRUN:
            sys.exit(f"{command}: {message}")
        if "joblib" in str(context.launcher.get("_target_")):
            raise  # the job runs in another process, and only an exception is passed on
        print(f"{command} {' '.join(context.overrides.task)}: {message}", file=sys.stderr, flush=True)
        FAILED.append(message)


def run_jobs(run: Callable[[], None]) -> None:
    """Call a function that Hydra decorates, and exit with 1 if `job_errors` has noted a failed job."""
    FAILED.clear()
    run()
    sys.exit(1 if FAILED else 0)
