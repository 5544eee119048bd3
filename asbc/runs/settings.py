"""The settings of a run, as `config.yaml` in its folder holds them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from asbc.runs.sealed import LAST_LINE, WAY_OUT, ResultsError, read_text

FILE = "config.yaml"


def read_settings(folder: Path) -> dict[str, Any]:
    """Settings of a run from its `config.yaml`, with `k_cand` where it stands today; empty if there are none."""
    path = folder / FILE
    try:
        found = _parsed(path)
    except FileNotFoundError:
        return {}
    except ResultsError:
        raise
    except Exception as error:  # of YAML, of OmegaConf, of odd values in them
        raise ResultsError(f"{path}: not readable ({error}); {WAY_OUT}") from error
    settings = {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}
    if "k_cand" not in settings and isinstance(settings.get("neighbors"), dict):
        settings["k_cand"] = settings["neighbors"].get("k")  # where it stood before version 0.2
    return settings


def settings_text(folder: Path) -> str:
    """The same as it was written, without the line of its checksum; empty if there are none."""
    try:
        return read_text(folder / FILE)
    except FileNotFoundError:
        return ""


def _parsed(path: Path) -> Any:
    text = read_text(path)
    # What OmegaConf wrote, and nobody changed, needs none of its care: plain values, read ten times as fast.
    if LAST_LINE.encode() in path.read_bytes() and "${" not in text and "!!" not in text:
        return _plain(text)
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.create(text))


def _plain(text: str) -> Any:
    import yaml

    return yaml.load(text, Loader=_loader())


@cache
def _loader() -> Any:
    """The fastest loader there is; dates stay text, and 1e5 is a number, as OmegaConf has it."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
        for first, known in Loader.yaml_implicit_resolvers.items()
    }
    number = re.compile(r"^[-+]?[0-9]+(?:_[0-9]+)*[eE][-+]?[0-9]+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    return Loader
