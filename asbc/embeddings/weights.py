"""What is in a file of weights, read without running code, and which part of it is the encoder."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# Every ResNet, and every ViT, has these; so the names before them are where an encoder lies.
_MARKS = ("layer1.0.conv1.weight", "patch_embed.proj.weight")


def read_weights(file: Path, trust_checkpoint: bool = False) -> Any:
    """What is in a file of weights; code in it is never run unless ``trust_checkpoint`` allows it.

    Parameters
    ----------
    file : Path
        ``.safetensors``, or anything that ``torch.save`` wrote.
    trust_checkpoint : bool, default=False
        Unpickle whatever the file holds. That can run any code: only for files of people you trust.
    """
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file of weights")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        _check_archive(file)
        return torch.load(file, map_location="cpu", weights_only=not trust_checkpoint)
    except pickle.UnpicklingError as error:
        wanted = re.search(r"GLOBAL ([\w.]+)|allowlisted.* got (.+)", str(error), re.DOTALL)
        if wanted is None:
            raise ValueError(f"{file}: damaged, or not a file of weights ({_first_line(error)})") from error
        raise ValueError(
            f"{file}: refused, for reading it would call {wanted[1] or wanted[2]}, which plain weights never do. "
            "Nothing of it was run. If you trust who made the file, trust_checkpoint=true reads it."
        ) from error
    except Exception as error:  # a damaged archive makes torch raise almost anything
        if isinstance(error, OSError) and not isinstance(error, zipfile.BadZipFile):
            raise
        raise ValueError(f"{file}: damaged, or not a file of weights ({_first_line(error)})") from error


def _check_archive(file: Path) -> None:
    """Compare what ``torch.save`` packed with its checksums, which torch itself does not look at."""
    if not zipfile.is_zipfile(file):
        return  # of torch before 1.6, which wrote none
    with zipfile.ZipFile(file) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of {damaged} differs")


def state_dict_of(weights: Any, file: Path) -> dict[str, Tensor]:
    """All weights by name, out of the dictionaries in which training scripts wrap them.

    A Lightning checkpoint has them under ``state_dict``, others under ``model``; where several networks lie side by
    side, such as ``teacher`` and ``student``, those become the first part of the names.
    """
    for key in ("state_dict", "model"):
        if isinstance(weights, Mapping) and isinstance(weights.get(key), Mapping):
            weights = weights[key]
    if not isinstance(weights, Mapping):
        raise ValueError(f"{file}: a dictionary of weights is wanted, got {type(weights).__name__}")
    found = [(str(name), value) for name, value in weights.items() if isinstance(value, Tensor)]
    if not found:
        parts = [(part, inside) for part, inside in weights.items() if isinstance(inside, Mapping)]
        found = [
            (f"{part}.{name}", value)
            for part, inside in parts
            for name, value in inside.items()
            if isinstance(value, Tensor)
        ]
    if not found:
        raise ValueError(f"{file}: there are no weights in it; it has {_some(map(str, weights)) or 'nothing'}")
    state = dict(found)
    if len(state) < len(found):  # keys that are no strings, such as 1 beside "1"
        twice = next(name for name, times in Counter(name for name, _ in found).items() if times > 1)
        raise ValueError(f"{file}: two weights are called {_short(twice)}")
    return state


def take_part(state: Mapping[str, Tensor], prefix: str | None, file: Path) -> dict[str, Tensor]:
    """The weights of one network out of several, by their names inside it.

    Parameters
    ----------
    state : mapping
        All weights of the file.
    prefix : str or None
        What the names of the network's weights start with, such as ``"backbone."``; ``""`` for all of them.
        None looks under ``backbone.``, then under ``encoder.``, then for the only ResNet or ViT there is.
    file : Path
        For the error, which lists the prefixes that the file has.
    """
    networks = encoder_prefixes(state)
    if prefix is None:
        usual = next((p for p in ("backbone.", "encoder.") if any(key.startswith(p) for key in state)), None)
        if usual is None and "" not in networks and len(networks) != 1:
            raise ValueError(f"{file}: which part is the encoder? Name it with prefix=. {describe_parts(state)}")
        prefix = usual if usual is not None else "" if "" in networks else networks[0]
    elif prefix and not prefix.endswith("."):
        prefix += "."
    if prefix not in networks:
        # lightly has the ViT itself one level down, with a mask token beside it.
        inside = [name for name in networks if name.startswith(prefix)]
        if len(inside) > 1:
            raise ValueError(
                f"{file}: several encoders are under prefix={prefix!r}. Name one of them. {describe_parts(state)}"
            )
        prefix = inside[0] if inside else prefix
    taken = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}
    if not taken:
        raise ValueError(f"{file}: there are no weights under prefix={prefix!r}. {describe_parts(state)}")
    return taken


def encoder_prefixes(state: Mapping[str, Tensor]) -> list[str]:
    """Prefixes under which a ResNet or a ViT lies, ``""`` for one that has the file to itself."""
    found = [key[: -len(mark)] for key in state for mark in _MARKS if key == mark or key.endswith("." + mark)]
    return sorted(set(found))


def describe_parts(state: Mapping[str, Tensor]) -> str:
    """The prefixes of a file's weights, those of encoders first, for an error message."""
    networks = [repr(prefix) for prefix in encoder_prefixes(state)]
    parts = Counter(key.partition(".")[0] + "." if "." in key else key for key in state)
    counted = [f"{_short(part)} ({count} entries)" for part, count in parts.items()]
    return f"A ResNet or ViT lies under {', '.join(networks) or 'none'} of the parts {_listed(counted, 12)}."


def load_strictly(model: nn.Module, state: Mapping[str, Tensor], what: str) -> None:
    """Load weights, or say how many do not fit and which; a network is never left as it was initialised."""
    wanted = model.state_dict()
    problems = []
    for label, names in (
        ("missing", [name for name in wanted if name not in state]),
        ("unexpected", [name for name in state if name not in wanted]),
        (
            "of another shape",
            [
                f"{name} {tuple(state[name].shape)} for {tuple(wanted[name].shape)}"
                for name in wanted
                if name in state and state[name].shape != wanted[name].shape
            ],
        ),
    ):
        if names:
            problems.append(f"{len(names)} {label}: {_some(names, 5)}")
    if problems:
        raise ValueError(f"{what}: the weights do not fit. {'; '.join(problems)}")
    model.load_state_dict(state)


def _some(names: Any, most: int = 8) -> str:
    return _listed([_short(name) for name in names], most)


def _listed(words: list[str], most: int) -> str:
    return ", ".join(words[:most]) + (", ..." if len(words) > most else "")


def _short(name: str, most: int = 100) -> str:
    """A name as a message can show it: a file may call its weights anything, also by a page of text."""
    shown = name if name.isprintable() else repr(name)
    return shown if len(shown) <= most else f"{shown[:most]}... ({len(name):,} characters)"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
