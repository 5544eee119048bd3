"""Models of timm: the network from timm, its weights through our own reader.

timm builds the network and says how images are prepared. It never reads weights here: some of its versions unpickle
what they find, and it takes weights that do not fit without a word.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import timm
import timm.data
from timm.models import PretrainedCfg
from torch import Tensor, nn

from asbc.embeddings.cache import cache_folder
from asbc.embeddings.download import Wanted
from asbc.embeddings.hub import WEIGHTS, hub_file
from asbc.embeddings.lightly import compare_with_first_use
from asbc.embeddings.missing import fetch_all
from asbc.embeddings.types import Encoder
from asbc.embeddings.weights import describe_parts, load_strictly, read_weights, state_dict_of, take_part

# Arguments that would make timm look for weights itself.
_NOT_OF_A_MODEL = {
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
    "checkpoint_path",
    "cache_dir",
    "features_only",
}
_NOT_OF_A_CONFIG = {"state_dict", "file", "url", "source", "hf_hub_id", "hf_hub_filename", "custom_load"}
_BY_HAND = "download the weights elsewhere and give path=<file>"


def timm_model(
    model: str | None,
    path: str | Path | None = None,
    trust_checkpoint: bool = False,
    prefix: str | None = None,
    cache: str | Path | None = None,
    download: bool = True,
) -> Encoder:
    """A timm model with its own transform.

    Parameters
    ----------
    model : str
        ``"name.tag"`` for weights from timm's hub, ``"name"`` for an architecture with weights in ``path``,
        ``"hf-hub:user/name"`` for a model that someone put on the Hugging Face hub with timm, ``"local-dir:folder"``
        for a folder with the same files (``config.json`` and ``model.safetensors``).
    path : path, optional
        A local file of weights, ``.safetensors`` or what ``torch.save`` wrote.
    trust_checkpoint : bool, default=False
        Unpickle whatever a file of weights holds. That can run any code.
    prefix : str, optional
        What the names of the model's weights start with in the file, such as ``"backbone."``.
    cache : path, optional
        The cache folder, see `asbc.embeddings.cache.cache_folder`.
    download : bool, default=True
        Whether weights may be downloaded.
    """
    if not model:
        raise ValueError("model: the name of a timm model is wanted, such as vit_small_patch16_224.dino")
    kind, _, place = model.partition(":")
    if not place and path is None and "." not in model:
        tags = ", ".join(timm.list_pretrained(f"{model}.*")) or "none"
        raise ValueError(
            f"model={model!r} is an architecture without weights: give path=<file of weights>, "
            f"or the full name of weights in timm's hub ({tags})"
        )
    if not place:
        network = _network(model, model)
        file = Path(path).expanduser() if path is not None else _published_file(model, network, cache, download)
    elif kind == "local-dir":
        folder = Path(place).expanduser()
        network = _described_network(folder / "config.json", model)
        file = Path(path).expanduser() if path is not None else _file_in(folder)
    elif kind in ("hf-hub", "hf_hub"):
        network = _described_network(hub_file(place, ("config.json",), model, cache, download), model)
        file = Path(path).expanduser() if path is not None else hub_file(place, WEIGHTS, model, cache, download)
    else:
        raise ValueError(f"model={model!r}: wanted is the name of a timm model, hf-hub:user/name or local-dir:folder")
    _load(network, file, model, trust_checkpoint, prefix)
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config, is_training=False)
    origin = f"timm {model}" + (f" from {Path(path).name}" if path else "")
    return Encoder(network.eval(), transform, tuple(config["input_size"][1:]), f"timm {model}", origin)


def _network(architecture: str, model: str, **arguments: Any) -> Any:
    try:
        return timm.create_model(architecture, pretrained=False, num_classes=0, **arguments)
    except Exception as error:  # timm raises a great many kinds
        raise ValueError(f"timm could not make model={model!r}: {error}") from error


def _described_network(file: Path, model: str) -> Any:
    """The network that a ``config.json`` describes, as timm writes it beside weights."""
    try:
        config = json.loads(file.read_text())
        images = config.get("pretrained_cfg", config)
        fields = set(PretrainedCfg.__dataclass_fields__) - _NOT_OF_A_CONFIG
        images = {key: value for key, value in images.items() if key in fields}
        architecture, arguments = str(config["architecture"]), dict(config.get("model_args") or {})
    except FileNotFoundError:
        raise FileNotFoundError(f"model={model!r}: there is no {file}") from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: not a config.json of timm ({type(error).__name__}: {error})") from error
    refused = sorted(_NOT_OF_A_MODEL & set(arguments))
    if refused or ":" in architecture:
        raise ValueError(f"{file}: refused, for it would make timm load weights ({', '.join(refused) or architecture})")
    return _network(architecture, model, pretrained_cfg=images, **arguments)


def _file_in(folder: Path) -> Path:
    """The file of weights in a folder, safetensors before all others."""
    for pattern in (*WEIGHTS, "*.safetensors", "*.pth", "*.bin", "*.pt"):
        files = sorted(folder.glob(pattern))
        if len(files) > 1:
            raise ValueError(
                f"{folder}: several files of weights ({', '.join(f.name for f in files)}); give path=<file>"
            )
        if files:
            return files[0]
    raise FileNotFoundError(f"{folder}: there is no file of weights in it, such as model.safetensors")


def _published_file(model: str, network: Any, cache: str | Path | None, download: bool) -> Path:
    """The weights that timm knows of, from its hub or, for a few models, from another address."""
    config = network.pretrained_cfg
    if config.get("custom_load"):
        raise ValueError(
            f"model={model!r}: its weights are in a format of their own, which is not read here; {_BY_HAND}"
        )
    if config.get("hf_hub_id"):
        named = config.get("hf_hub_filename")
        return hub_file(config["hf_hub_id"], (named,) if named else WEIGHTS, model, cache, download)
    if not config.get("url"):
        raise ValueError(f"model={model!r}: timm knows of no weights for it; {_BY_HAND}")
    file = Wanted(config["url"], cache_folder(cache) / "timm" / model / config["url"].rsplit("/", 1)[1])
    fetch_all(f"model={model!r}", [file], _BY_HAND, download=download)
    compare_with_first_use(file)
    return file.target


def _load(network: Any, file: Path, model: str, trust_checkpoint: bool, prefix: str | None) -> None:
    whole = state_dict_of(read_weights(file, trust_checkpoint), file)
    state: Mapping[str, Tensor] = whole if prefix is None else take_part(whole, prefix, file)
    head = network.pretrained_cfg.get("classifier") or ()  # one name or several: its weights are not wanted
    heads = tuple(f"{name}." for name in ([head] if isinstance(head, str) else head))
    state = {key: value for key, value in state.items() if not key.startswith(heads)}
    if not set(state) & set(network.state_dict()):
        state = _translated(state, network)
    try:
        load_strictly(network, state, f"{file} as {model}")
    except ValueError as error:
        if not set(state) & set(network.state_dict()) and prefix is None:
            raise ValueError(
                f"{error}. Is it a part of the file? Name it with prefix=. {describe_parts(whole)}"
            ) from None
        raise


def _translated(state: Mapping[str, Tensor], network: nn.Module) -> Mapping[str, Tensor]:
    """Weights that bear other names, such as their first author's, under timm's, where timm knows how."""
    translate = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
    if translate is None:
        return state
    try:
        return translate(dict(state), network)
    except Exception:  # made for other weights: the error that follows says what does not fit
        return state
