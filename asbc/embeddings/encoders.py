"""What turns images into vectors: solo-learn checkpoints, timm models, or a function of your own.

An encoder of your own is a function that returns an `Encoder`; ``docs/encoders.md`` shows how.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torchvision.transforms import v2

# solo-learn embeds CIFAR-10 and CIFAR-100 alike with these, whatever it used to train.
_CIFAR = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.247, 0.243, 0.261)}
_STL10 = {"mean": (0.4914, 0.4823, 0.4466), "std": (0.247, 0.243, 0.261)}
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

_VIT_WIDTH = {"vit_tiny": 192, "vit_small": 384, "vit_base": 768}
_BACKBONES = ("resnet18", "resnet50", *_VIT_WIDTH)


@dataclass(frozen=True)
class Encoder:
    """A model and the images it wants.

    Attributes
    ----------
    model : torch.nn.Module
        Images of shape (b, 3, h, w) to features of shape (b, d).
    transform : callable
        A PIL image to a tensor of shape (3, h, w).
    image_size : tuple of int
        The ``(h, w)`` that the model was made for; images of any other size are refused.
    architecture : str
        Whatever else than weights decides the features, in words. Two encoders that give different features
        must differ in it, in their weights or in their transform, for that is how the store tells them apart.
    origin : str
        Where the weights come from, for the record.
    """

    model: nn.Module
    transform: Callable[[Any], Tensor]
    image_size: tuple[int, int]
    architecture: str
    origin: str

    def weights_hash(self) -> str:
        """SHA-256 of names, shapes and values of all parameters and buffers."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


# ---------------------------------------------------------------------------- solo-learn checkpoints


def solo_checkpoint(path: str | Path, trust_checkpoint: bool = False) -> Encoder:
    """The backbone of a checkpoint that solo-learn wrote.

    Parameters
    ----------
    path : path
        A folder with ``args.json`` and one ``.ckpt`` file, or a ``.ckpt`` file. Where no ``args.json`` lies
        beside it, the architecture is read off the weights; where they do not show it, that is an error.
    trust_checkpoint : bool
        Unpickle whatever the file holds. That can run any code: only for files of people you trust.
    """
    file, args_file = _find_checkpoint(Path(path).expanduser())
    checkpoint = read_weights(file, trust_checkpoint)
    state = _backbone_state(checkpoint, file)
    parts = {str(key).split(".")[0] for key in checkpoint["state_dict"]}
    args = _read_args(args_file) if args_file else _guess_args(state, parts, file)
    name, dataset = args["backbone"], args["dataset"]
    if name not in _BACKBONES:
        raise ValueError(f"{args_file or file}: backbone {name!r} is not supported, only {', '.join(_BACKBONES)}")
    cifar = dataset in ("cifar10", "cifar100")
    try:
        model = (
            _resnet(name, cifar, args["kwargs"])
            if name.startswith("resnet")
            else _vit(name, args["method"], args["kwargs"], state)
        )
    except TypeError as error:
        raise ValueError(f"{args_file}: {name} does not take the arguments {args['kwargs']} ({error})") from error
    _load_strictly(model, state, f"{file} as {name}" + (f" (what {args_file.name} says)" if args_file else ""))
    size, architecture = None, f"{name}, {'CIFAR' if cifar else 'ImageNet'} stem"
    if isinstance(model, VisionTransformer):
        size, architecture = model.patch_embed.img_size[0], f"{name}, {_heads(name, args['method'])} heads"
    transform, size = _solo_transform(dataset, size)
    return Encoder(model.eval(), transform, (size, size), architecture, f"solo-learn checkpoint {file.name}")


def _find_checkpoint(path: Path) -> tuple[Path, Path | None]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such checkpoint file or folder")
    if path.is_dir():
        files = sorted(path.glob("*.ckpt"))
        if len(files) != 1:
            listed = ", ".join(file.name for file in files) or "none"
            raise ValueError(f"{path}: one .ckpt file is wanted in the folder, got {listed}; give the file itself")
        if not (path / "args.json").is_file():
            raise ValueError(f"{path}: args.json is missing beside {files[0].name}; give the file to do without it")
        return files[0], path / "args.json"
    beside = path.parent / "args.json"
    return path, beside if beside.is_file() else None


def _read_args(path: Path) -> dict[str, Any]:
    """Backbone, its arguments, method and data set from an ``args.json`` of any solo-learn version."""
    try:
        args = json.loads(path.read_text())
        backbone = args.get("backbone", args.get("encoder"))  # it was "encoder" before 1.0.3
        if isinstance(backbone, Mapping):
            name, kwargs = backbone["name"], dict(backbone.get("kwargs") or {})
        else:
            name, kwargs = backbone, dict(args.get("backbone_args", args.get("encoder_args")) or {})
        dataset = args["data"]["dataset"] if "data" in args else args["dataset"]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: not an args.json of solo-learn ({type(error).__name__}: {error})") from error
    kwargs.pop("cifar", None)  # follows from the data set
    return {"backbone": name, "kwargs": kwargs, "dataset": dataset, "method": args.get("method")}


def _guess_args(state: Mapping[str, Tensor], parts: set[str], file: Path) -> dict[str, Any]:
    """The same, read off the backbone's weights and the names of the other parts of the checkpoint."""
    if "cls_token" in state and "pos_embed" in state:
        width = state["cls_token"].shape[-1]
        name = next((name for name, wanted in _VIT_WIDTH.items() if wanted == width), f"ViT of width {width}")
        method = "mae" if "decoder" in parts else None
        # Heads leave no trace in a ViT's weights. MAE has a decoder to be known by; MoCo v3 looks like BYOL.
        if {"predictor", "momentum_projector"} <= parts and name != "vit_base":
            raise ValueError(
                f"{file}: these weights do not show how many heads the ViT has (12 if MoCo v3 trained it, fewer if "
                "BYOL did), and with the wrong number the features are wrong; args.json is wanted beside the file"
            )
        dataset = "cifar100" if _vit_image_size(state) == 32 else "imagenet100"
        return {"backbone": name, "kwargs": {}, "dataset": dataset, "method": method}
    if "conv1.weight" in state:
        name = "resnet50" if "layer1.0.conv3.weight" in state else "resnet18"
        dataset = "cifar100" if state["conv1.weight"].shape[-1] == 3 else "imagenet100"
        return {"backbone": name, "kwargs": {}, "dataset": dataset, "method": None}
    raise ValueError(
        f"{file}: these are neither a ResNet's nor a ViT's weights (first: {', '.join(list(state)[:3])}); "
        f"supported are {', '.join(_BACKBONES)}"
    )


def _resnet(name: str, cifar: bool, kwargs: Mapping[str, Any]) -> nn.Module:
    model = getattr(torchvision.models, name)(**kwargs)
    model.fc = nn.Identity()
    if cifar:
        # Padding 2, not 1: the feature map is 34 x 34. That is what the weights were trained with.
        model.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=2, bias=False)
        model.maxpool = nn.Identity()
    return model


def _vit(name: str, method: str | None, kwargs: Mapping[str, Any], state: Mapping[str, Tensor]) -> nn.Module:
    sizes = {}
    if "patch_embed.proj.weight" in state and "pos_embed" in state:
        sizes = {"patch_size": state["patch_embed.proj.weight"].shape[-1], "img_size": _vit_image_size(state)}
    return VisionTransformer(
        **{**sizes, **kwargs},
        embed_dim=_VIT_WIDTH[name],
        depth=12,
        num_heads=_heads(name, method),
        num_classes=0,
    )


def _heads(name: str, method: str | None) -> int:
    # solo-learn gives the ViTs of these two methods 12 heads whatever their width; weights do not show it.
    return 12 if method in ("mocov3", "mae") else _VIT_WIDTH[name] // 64


def _vit_image_size(state: Mapping[str, Tensor]) -> int:
    patches = state["pos_embed"].shape[1] - 1  # one token is the class token
    return math.isqrt(patches) * state["patch_embed.proj.weight"].shape[-1]


def _solo_transform(dataset: str, size: int | None) -> tuple[Callable[[Any], Tensor], int]:
    """How solo-learn prepares the images of a data set when it embeds them, and their size then."""
    if dataset in ("cifar10", "cifar100"):
        return v2.Compose([*_TO_TENSOR, v2.Normalize(**_CIFAR)]), size or 32
    if dataset == "stl10":
        size = size or 96
        return v2.Compose([v2.Resize((size, size)), *_TO_TENSOR, v2.Normalize(**_STL10)]), size
    size = size or 224
    resize = [v2.Resize(size * 256 // 224), v2.CenterCrop(size)]
    return v2.Compose([*resize, *_TO_TENSOR, v2.Normalize(**_IMAGENET)]), size


_TO_TENSOR = (v2.ToImage(), v2.ToDtype(torch.float32, scale=True))


def _backbone_state(checkpoint: Any, file: Path) -> dict[str, Tensor]:
    """The backbone's weights, by their names inside the backbone."""
    state = checkpoint.get("state_dict") if isinstance(checkpoint, Mapping) else None
    if not isinstance(state, Mapping):
        raise ValueError(f"{file}: not a solo-learn checkpoint, it has no state_dict")
    for prefix in ("backbone.", "encoder."):
        found = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}
        if found:
            return found
    starts = sorted({key.split(".")[0] for key in state})
    raise ValueError(f"{file}: no weights under 'backbone.' or 'encoder.', only under {', '.join(starts[:8])}")


# ------------------------------------------------------------------------------------------ timm models


def timm_model(model: str | None, path: str | Path | None = None, trust_checkpoint: bool = False) -> Encoder:
    """A timm model with its own transform.

    Parameters
    ----------
    model : str
        ``"name.tag"`` for weights from timm's hub, ``"name"`` for an architecture with weights in ``path``.
    path : path, optional
        A local file of weights, ``.safetensors`` or what ``torch.save`` wrote.
    trust_checkpoint : bool
        See `solo_checkpoint`.
    """
    if not model:
        raise ValueError("model: the name of a timm model is wanted, such as vit_small_patch16_224.dino")
    hub = "." in model or ":" in model
    if not hub and path is None:
        tags = ", ".join(timm.list_pretrained(f"{model}.*")) or "none"
        raise ValueError(
            f"model={model!r} is an architecture without weights: give path=<file of weights>, "
            f"or the full name of weights in timm's hub ({tags})"
        )
    try:
        network: Any = timm.create_model(model, pretrained=path is None, num_classes=0)
    except Exception as error:  # timm and its hub raise a great many kinds
        hint = "" if path else "; without a connection, download the weights elsewhere and give path=<file>"
        raise ValueError(f"timm could not make model={model!r}: {error}{hint}") from error
    if path is not None:
        file = Path(path).expanduser()
        state = _plain_state(read_weights(file, trust_checkpoint), file)
        head = network.pretrained_cfg["classifier"]  # one name or several: its weights are not wanted
        heads = tuple(f"{name}." for name in ([head] if isinstance(head, str) else head))
        state = {key: value for key, value in state.items() if not key.startswith(heads)}
        _load_strictly(network, state, f"{file} as {model}")
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config, is_training=False)
    origin = f"timm {model}" + (f" from {Path(path).name}" if path else "")
    return Encoder(network.eval(), transform, tuple(config["input_size"][1:]), f"timm {model}", origin)


def _plain_state(weights: Any, file: Path) -> dict[str, Tensor]:
    """A state dict, out of the dictionary in which training scripts like to wrap it."""
    for key in ("state_dict", "model"):
        if isinstance(weights, Mapping) and isinstance(weights.get(key), Mapping):
            weights = weights[key]
    if not isinstance(weights, Mapping) or not all(isinstance(value, Tensor) for value in weights.values()):
        raise ValueError(f"{file}: a dictionary of weights is wanted, got {type(weights).__name__}")
    return dict(weights)


# --------------------------------------------------------------------------------------- files of weights


def read_weights(file: Path, trust_checkpoint: bool = False) -> Any:
    """What is in a file of weights; code in it is never run unless ``trust_checkpoint`` allows it."""
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file of weights")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
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


def _load_strictly(model: nn.Module, state: Mapping[str, Tensor], what: str) -> None:
    """Load weights, or say how many do not fit and which."""
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
            more = ", ..." if len(names) > 5 else ""
            problems.append(f"{len(names)} {label}: {', '.join(names[:5])}{more}")
    if problems:
        raise ValueError(f"{what}: the weights do not fit. {'; '.join(problems)}")
    model.load_state_dict(state)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
