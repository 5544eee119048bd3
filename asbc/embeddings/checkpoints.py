"""The encoder in a checkpoint: of solo-learn, lightly, stable-pretraining, or plain weights of torchvision or timm."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torchvision.models.resnet import Bottleneck
from torchvision.transforms import v2

from asbc.checksums import json_crc32
from asbc.embeddings.backbones import FULL, RESNETS, resnet
from asbc.embeddings.types import Encoder
from asbc.embeddings.weights import describe_parts, load_strictly, read_weights, state_dict_of, take_part

# solo-learn embeds CIFAR-10 and CIFAR-100 alike with these, whatever it used to train.
CIFAR_SCALE = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.247, 0.243, 0.261)}
_STL10 = {"mean": (0.4914, 0.4823, 0.4466), "std": (0.247, 0.243, 0.261)}
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

_VIT_WIDTH = {"vit_tiny": 192, "vit_small": 384, "vit_base": 768}
# Whether blocks are bottlenecks, and how many there are in the four layers.
_RESNET_BLOCKS = {(block is Bottleneck, layers): name for name, (block, layers) in RESNETS.items()}
_BACKBONES = (*RESNETS, *_VIT_WIDTH)
_HEADS = ("fc.", "head.")  # classifiers, which are not wanted


def read_checkpoint(
    path: str | Path, trust_checkpoint: bool = False, prefix: str | None = None, padding: int | None = None
) -> Encoder:
    """The encoder of a checkpoint.

    Parameters
    ----------
    path : path
        A folder with ``args.json`` and one ``.ckpt`` file, as solo-learn writes it, or a file of weights. Where no
        ``args.json`` lies beside it, the architecture is read off the weights; where they do not show it, that is
        an error.
    trust_checkpoint : bool, default=False
        Unpickle whatever the file holds. That can run any code: only for files of people you trust.
    prefix : str, optional
        What the names of the encoder's weights start with, such as ``"backbone."`` or ``"student_backbone."``. By
        default ``backbone.``, ``encoder.``, or the only ResNet or ViT of the file.
    padding : {1, 2}, optional
        Of a first convolution of 3 x 3, which weights do not show: 2 in solo-learn, 1 in most other programs. Not
        needed for checkpoints of solo-learn.
    """
    file, args_file = _find_checkpoint(Path(path).expanduser())
    whole = state_dict_of(read_weights(file, trust_checkpoint), file)
    state = take_part(whole, prefix, file)
    state = {key: value for key, value in state.items() if not key.startswith(_HEADS)}
    parts = {key.split(".")[0] for key in whole}
    args = _read_args(args_file) if args_file else _guess_args(state, parts, file, describe_parts(whole))
    name, dataset = args["backbone"], args["dataset"]
    if name not in _BACKBONES:
        raise ValueError(f"{args_file or file}: backbone {name!r} is not supported, only {', '.join(_BACKBONES)}")
    own = args["asbc"]  # what asbc-pretrain notes beside solo-learn's arguments
    cifar = own["padding"] is not None if own else dataset in ("cifar10", "cifar100")
    if own and cifar and padding is None:
        padding = own["padding"]
    if name.startswith("resnet") and cifar and padding is None:
        # Every method of solo-learn has a classifier beside the backbone.
        if not args_file and "classifier" not in parts:
            raise ValueError(
                f"{file}: these weights do not show the padding of the first convolution (3 x 3), and with the wrong "
                "one the features are wrong; padding=2 is solo-learn's, padding=1 stable-pretraining's and most others'"
            )
        padding = 2
    try:
        model = (
            resnet(name, padding if cifar else None, **args["kwargs"])
            if name.startswith("resnet")
            else _vit(name, args["method"], args["kwargs"], state)
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{args_file or file}: {name} does not take the arguments {args['kwargs']} ({error})"
        ) from error
    load_strictly(model, state, f"{file} as {name}" + (f" (what {args_file.name} says)" if args_file else ""))
    size, architecture = None, f"{name}, {'CIFAR' if cifar else 'ImageNet'} stem"
    architecture += f", width {args['kwargs']['width']}" if args["kwargs"].get("width", FULL) != FULL else ""
    if cifar and padding == 1:
        architecture += ", padding 1"
    if isinstance(model, VisionTransformer):
        size, architecture = model.patch_embed.img_size[0], f"{name}, {_heads(name, args['method'])} heads"
    if own:
        transform, size = plain_view(own["image_size"], own["mean"], own["std"]), own["image_size"]
    else:
        transform, size = _transform(dataset, size)
    origin = f"checkpoint {file.name}" + (f", part {prefix}" if prefix else "")
    return Encoder(model.eval(), transform, (size, size), architecture, origin)


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
        said = args.pop("check", None)  # asbc-pretrain writes it, solo-learn does not
        if said is not None and said != json_crc32(args):
            raise ValueError("its checksum differs")
        backbone = args.get("backbone", args.get("encoder"))  # it was "encoder" before 1.0.3
        if isinstance(backbone, Mapping):
            name, kwargs = backbone["name"], dict(backbone.get("kwargs") or {})
        else:
            name, kwargs = backbone, dict(args.get("backbone_args", args.get("encoder_args")) or {})
        dataset = args["data"]["dataset"] if "data" in args else args["dataset"]
        own = args.get("asbc")
        if own is not None:
            own = {key: own[key] for key in ("padding", "image_size", "mean", "std")}
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path}: damaged, or not an args.json of solo-learn ({type(error).__name__}: {error})"
        ) from error
    kwargs.pop("cifar", None)  # follows from the data set
    return {"backbone": name, "kwargs": kwargs, "dataset": dataset, "method": args.get("method"), "asbc": own}


def _guess_args(state: Mapping[str, Tensor], parts: set[str], file: Path, described: str) -> dict[str, Any]:
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
        return {"backbone": name, "kwargs": {}, "dataset": dataset, "method": method, "asbc": None}
    if "conv1.weight" in state:
        deep = "layer1.0.conv3.weight" in state
        blocks = tuple(len({key.split(".")[1] for key in state if key.startswith(f"layer{i}.")}) for i in range(1, 5))
        # Blocks of no known ResNet: what is missing or too much comes out when the weights are loaded.
        name = _RESNET_BLOCKS.get((deep, blocks), "resnet50" if deep else "resnet18")
        dataset = "cifar100" if state["conv1.weight"].shape[-1] == 3 else "imagenet100"
        width = state["conv1.weight"].shape[0]
        kwargs = {} if width == FULL else {"width": width}
        return {"backbone": name, "kwargs": kwargs, "dataset": dataset, "method": None, "asbc": None}
    raise ValueError(
        f"{file}: these are neither a ResNet's nor a ViT's weights (first: {', '.join(list(state)[:3])}); "
        f"supported are {', '.join(_BACKBONES)}. {described}"
    )


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


def plain_view(size: int, mean: Sequence[float], std: Sequence[float]) -> v2.Compose:
    """An image as an encoder of asbc-pretrain sees it: `size` x `size` pixels of its middle, no chance in it."""
    steps = [v2.ToImage(), v2.Resize(size), v2.CenterCrop(size), v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose([*steps, v2.Normalize(list(mean), list(std))])


def _transform(dataset: str, size: int | None) -> tuple[Callable[[Any], Tensor], int]:
    """How the images of a data set are prepared when they are embedded, and their size then."""
    to_tensor = (v2.ToImage(), v2.ToDtype(torch.float32, scale=True))
    if dataset in ("cifar10", "cifar100"):
        return v2.Compose([*to_tensor, v2.Normalize(**CIFAR_SCALE)]), size or 32
    if dataset == "stl10":
        size = size or 96
        return v2.Compose([v2.Resize((size, size)), *to_tensor, v2.Normalize(**_STL10)]), size
    size = size or 224
    resize = [v2.Resize(size * 256 // 224), v2.CenterCrop(size)]
    return v2.Compose([*resize, *to_tensor, v2.Normalize(**_IMAGENET)]), size
