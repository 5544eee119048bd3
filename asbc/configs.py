"""The folder of configs, and the methods that are composed from them."""

from __future__ import annotations

import functools
from pathlib import Path

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
