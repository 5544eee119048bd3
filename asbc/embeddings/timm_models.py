"""Models of timm: timm builds the network and its transform, asbc reads the weights.

timm never reads weights here: some of its versions unpickle them, and it accepts weights that do not fit.
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

from asbc.embeddings.checkpoints import (
    Encoder,
    list_prefixes,
    load_strictly,
    read_weights,
    select_weights,
    state_dict_of,
)
from asbc.embeddings.download import fetch_all
from asbc.embeddings.hub import WEIGHTS, hub_file
from asbc.embeddings.published import verify_first_use
from asbc.embeddings.store import RemoteFile, cache_folder

# Arguments and settings that would make timm load weights.
_REFUSED_ARGUMENTS = {
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
    "checkpoint_path",
    "cache_dir",
    "features_only",
}
_REFUSED_SETTINGS = {"state_dict", "file", "url", "source", "hf_hub_id", "hf_hub_filename", "custom_load"}
_BY_HAND = "download the weights elsewhere and give path=<file>"


def timm_model(
    model: str | None,
    path: str | Path | None = None,
    trust_checkpoint: bool = False,
    prefix: str | None = None,
    cache: str | Path | None = None,
    download: bool = True,
) -> Encoder:
    """Return a timm model with its own transform.

    Parameters
    ----------
    model : str
        ``"name.tag"`` for weights from timm's hub, ``"name"`` for an architecture with weights in `path`,
        ``"hf-hub:user/name"`` for a timm model on the Hugging Face hub, ``"local-dir:folder"`` for a folder with the
        same files (``config.json`` and ``model.safetensors``).
    path, trust_checkpoint, prefix, cache, download
        As in `asbc.embeddings.EncoderSource`.
    """
    if not model:
        raise ValueError("model: no timm model given; for example vit_small_patch16_224.dino")
    kind, _, place = model.partition(":")
    if not place and path is None and "." not in model:
        tags = ", ".join(timm.list_pretrained(f"{model}.*")) or "none"
        raise ValueError(
            f"model={model!r} is an architecture without weights: give path=<file of weights>, "
            f"or the full name of weights in timm's hub ({tags})"
        )
    file = Path(path).expanduser() if path is not None else None
    if not place:
        network = _create(model, model)
        file = file or _published_file(model, network, cache, download)
    elif kind == "local-dir":
        folder = Path(place).expanduser()
        network = _create_from_config(folder / "config.json", model)
        file = file or _weights_in(folder)
    elif kind in ("hf-hub", "hf_hub"):
        network = _create_from_config(hub_file(place, ("config.json",), model, cache, download), model)
        file = file or hub_file(place, WEIGHTS, model, cache, download)
    else:
        raise ValueError(f"model={model!r}: expected the name of a timm model, hf-hub:user/name or local-dir:folder")
    _load(network, file, model, trust_checkpoint, prefix)
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config, is_training=False)
    origin = f"timm {model}" + (f" from {file.name}" if path else "")
    return Encoder(network.eval(), transform, tuple(config["input_size"][1:]), f"timm {model}", origin)


def _create(architecture: str, model: str, **arguments: Any) -> Any:
    try:
        return timm.create_model(architecture, pretrained=False, num_classes=0, **arguments)
    except Exception as error:  # timm raises many kinds
        raise ValueError(f"timm cannot create model={model!r}: {error}") from error


def _create_from_config(file: Path, model: str) -> Any:
    """Return the network that a ``config.json`` describes, as timm writes it next to weights."""
    try:
        config = json.loads(file.read_text())
        images = config.get("pretrained_cfg", config)
        allowed = set(PretrainedCfg.__dataclass_fields__) - _REFUSED_SETTINGS
        images = {key: value for key, value in images.items() if key in allowed}
        architecture, arguments = str(config["architecture"]), dict(config.get("model_args") or {})
    except FileNotFoundError:
        raise FileNotFoundError(f"model={model!r}: there is no {file}") from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: not a config.json of timm ({type(error).__name__}: {error})") from error
    refused = sorted(_REFUSED_ARGUMENTS & set(arguments))
    if refused or ":" in architecture:
        raise ValueError(f"{file}: refused, it would make timm load weights ({', '.join(refused) or architecture})")
    return _create(architecture, model, pretrained_cfg=images, **arguments)


def _weights_in(folder: Path) -> Path:
    """Return the file of weights in a folder, safetensors first."""
    for pattern in (*WEIGHTS, "*.safetensors", "*.pth", "*.bin", "*.pt"):
        files = sorted(folder.glob(pattern))
        if len(files) > 1:
            raise ValueError(
                f"{folder}: several files of weights ({', '.join(f.name for f in files)}); give path=<file>"
            )
        if files:
            return files[0]
    raise FileNotFoundError(f"{folder}: there is no file of weights, such as model.safetensors")


def _published_file(model: str, network: Any, cache: str | Path | None, download: bool) -> Path:
    """Return the weights that timm lists, from its hub or, for a few models, from another address."""
    config = network.pretrained_cfg
    if config.get("custom_load"):
        raise ValueError(f"model={model!r}: its weights have a format of their own, which asbc does not read")
    if config.get("hf_hub_id"):
        named = config.get("hf_hub_filename")
        return hub_file(config["hf_hub_id"], (named,) if named else WEIGHTS, model, cache, download)
    if not config.get("url"):
        raise ValueError(f"model={model!r}: timm lists no weights for it; {_BY_HAND}")
    file = RemoteFile(config["url"], cache_folder(cache) / "timm" / model / config["url"].rsplit("/", 1)[1])
    fetch_all(f"model={model!r}", [file], _BY_HAND, download=download)
    verify_first_use(file)
    return file.path


def _load(network: Any, file: Path, model: str, trust_checkpoint: bool, prefix: str | None) -> None:
    everything = state_dict_of(read_weights(file, trust_checkpoint), file)
    state: Mapping[str, Tensor] = everything if prefix is None else select_weights(everything, prefix, file)
    head = network.pretrained_cfg.get("classifier") or ()  # one name or several
    heads = tuple(f"{name}." for name in ([head] if isinstance(head, str) else head))
    state = {key: value for key, value in state.items() if not key.startswith(heads)}
    if not set(state) & set(network.state_dict()):
        state = _rename(state, network)
    try:
        load_strictly(network, state, f"{file} as {model}")
    except ValueError as error:
        if prefix is None and not set(state) & set(network.state_dict()):
            raise ValueError(f"{error}. prefix= names a network in the file. {list_prefixes(everything)}") from None
        raise


def _rename(state: Mapping[str, Tensor], network: nn.Module) -> Mapping[str, Tensor]:
    """Return weights under timm's names, where timm can convert the names of the original authors."""
    convert = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return state
    try:
        return convert(dict(state), network)
    except Exception:  # written for other weights: loading them reports what does not fit
        return state
