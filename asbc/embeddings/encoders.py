"""Encoders from files of weights: solo-learn, lightly, stable-pretraining, torchvision and timm.

A file of weights is read without running code in it. timm builds networks and their transforms, but never reads weights
here: some of its versions unpickle them, and it accepts weights that do not fit.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import pickle
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import timm
import timm.data
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.transforms import v2

from asbc.embeddings.store import RemoteFile, cache_folder, first_line
from asbc.storage import CHECKSUM_KEY, json_checksum, open_regular

# solo-learn embeds CIFAR-10 and CIFAR-100 with these values, whatever it used for training.
CIFAR_NAMES = ("cifar10", "cifar100")
CIFAR_SCALE = ((0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261))  # mean and standard deviation
_IMAGENET_SCALE = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

# Block type and number of blocks in the four layers.
RESNETS: dict[str, tuple[type[BasicBlock | Bottleneck], tuple[int, ...]]] = {
    "resnet10": (BasicBlock, (1, 1, 1, 1)),
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)),
}
STANDARD_WIDTH = 64  # channels of the first layer in all published ResNets
_VIT_WIDTH = {"vit_tiny": 192, "vit_small": 384, "vit_base": 768}
# Of solo-learn's and our args.json. Weights show the sizes; the other options do not matter for embedding.
_BACKBONE_OPTIONS = {"cifar", "width", "img_size", "patch_size", "zero_init_residual", "drop_rate", "drop_path_rate"}
_CLASSIFIERS = ("fc.", "head.")
# Every ResNet or ViT has one of these weights; what precedes it is the prefix of an encoder.
_ENCODER_PREFIX = re.compile(r"(|.*\.)(layer1\.0\.conv1|patch_embed\.proj)\.weight")
MAX_ARGS_BYTES = 2**20
HUB_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first one that a repository has


@dataclass(frozen=True)
class Encoder:
    """A model together with the preparation of its images.

    Parameters
    ----------
    model : torch.nn.Module
        Maps images of shape (b, 3, h, w) to features of shape (b, d).
    transform : callable
        Maps a PIL image to a tensor of shape (3, h, w).
    image_size : tuple of int
        The ``(h, w)`` that the model needs; images of another size are refused.
    architecture : str
        Everything except weights and transform that determines the features. The store uses it to distinguish encoders.
    origin : str
        Where the weights come from, for the record.

    See Also
    --------
    EncoderSource : embeds images with an encoder.

    Examples
    --------
    >>> import torch
    >>> from torchvision.transforms import v2
    >>> from asbc.embeddings import Encoder
    >>> model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    >>> transform = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    >>> encoder = Encoder(model, transform, (8, 8), architecture="mean colour", origin="none")
    >>> encoder.model(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 3])
    """

    model: nn.Module
    transform: Callable[[Any], Tensor]
    image_size: tuple[int, int]
    architecture: str
    origin: str

    def weights_hash(self) -> str:
        """Return the SHA-256 of names, shapes and values of all parameters and buffers."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


def read_checkpoint(
    path: str | Path, trust_checkpoint: bool = False, prefix: str | None = None, padding: int | None = None
) -> Encoder:
    """Return the encoder of a checkpoint.

    Parameters
    ----------
    path : path
        A folder with ``args.json`` and one ``.ckpt`` file, as solo-learn and ``asbc-pretrain`` write it, or a file of
        weights. Without ``args.json`` the architecture is inferred from the weights; if that is ambiguous, it is an
        error.
    trust_checkpoint : bool, default=False
        Unpickle everything in the file. That can run any code: only for files from people you trust.
    prefix : str, default=None
        Prefix of the encoder's weights, such as ``"backbone."`` or ``"student_backbone."``. By default ``backbone.``,
        ``encoder.``, or the only ResNet or ViT of the file.
    padding : {1, 2}, default=None
        Padding of a 3 x 3 first convolution, which weights do not show: 2 in solo-learn, 1 in most other programs. Not
        needed for checkpoints of solo-learn and ``asbc-pretrain``.

    See Also
    --------
    read_weights : the weights alone.

    Examples
    --------
    >>> import tempfile, torch, torchvision
    >>> from asbc.embeddings import read_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save(torchvision.models.resnet18().state_dict(), f"{folder}/resnet18.pth")
    ...     read_checkpoint(f"{folder}/resnet18.pth").architecture
    'resnet18, ImageNet stem'
    """
    file, args_file = _find_checkpoint(Path(path).expanduser())
    everything = read_state(file, trust_checkpoint)
    state = select_weights(everything, prefix, file)
    state = {key: value for key, value in state.items() if not key.startswith(_CLASSIFIERS)}
    args = _read_args(args_file) if args_file else _Args()
    networks = {key.split(".")[0] for key in everything}
    is_vit = {"cls_token", "pos_embed", "patch_embed.proj.weight"} <= state.keys()
    if not is_vit and "conv1.weight" not in state:
        raise ValueError(
            f"{file}: neither a ResNet nor a ViT (first weights: {join(list(state)[:3])}); "
            f"supported are {', '.join((*RESNETS, *_VIT_WIDTH))}. {list_prefixes(everything)}"
        )
    try:
        with torch.device("meta"):  # allocates nothing, whatever sizes the file declares
            name, details, size, model = (_vit if is_vit else _resnet)(state, networks, args, padding)
    except (ValueError, TypeError, RuntimeError, AssertionError, IndexError, ZeroDivisionError) as error:
        raise ValueError(f"{file}: {first_line(error)}") from error
    if args.backbone not in (None, name):
        raise ValueError(f"{args_file}: the backbone is {args.backbone}, but the weights in {file.name} are a {name}")
    load_strictly(model, state, f"{file} as {name}")
    if args.view:
        size, transform = args.view[0], plain_view(*args.view)
    elif args.dataset in CIFAR_NAMES or (args_file is None and size == 32):
        transform = plain_view(None, *CIFAR_SCALE)
    else:
        transform = plain_view(size, *_IMAGENET_SCALE, resize=size * 256 // 224)
    origin = f"checkpoint {file.name}" + (f", prefix {prefix}" if prefix else "")
    return Encoder(model.eval(), transform, (size, size), f"{name}, {details}", origin)


@dataclass(frozen=True)
class _Args:
    """What ``args.json`` says about an encoder."""

    backbone: str | None = None
    dataset: str | None = None  # that it was trained on
    method: str | None = None
    padding: int | None = None  # of the CIFAR stem of a ResNet
    view: tuple[int, Any, Any] | None = None  # image size, mean and std, which asbc-pretrain adds


def plain_view(size: int | None, mean: Sequence[float], std: Sequence[float], resize: int | None = None) -> v2.Compose:
    """Return the transform for embedding: the central `size` x `size` pixels of an image whose shorter side is resized.

    It is resized to `resize`, as an image of Pillow; or by default to `size`, where arrays are images, too. None for
    `size` leaves the image as it is.
    """
    crop = [] if size is None else [v2.Resize(resize or size), v2.CenterCrop(size)]
    steps = [v2.ToImage(), *crop] if resize is None else [*crop, v2.ToImage()]  # v2 resizes no arrays
    return v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std))])


def _find_checkpoint(path: Path) -> tuple[Path, Path | None]:
    """Return the file of weights, and the ``args.json`` next to it if there is one."""
    if path.is_dir():
        files = sorted(path.glob("*.ckpt"))
        if len(files) != 1:
            found = join(file.name for file in files) or "none"
            raise ValueError(f"{path}: expected one .ckpt file, got {found}; give the file itself")
        path = files[0]
    args = path.parent / "args.json"
    return path, args if args.exists() else None


def _read_args(path: Path) -> _Args:
    """Read an ``args.json`` of ``asbc-pretrain`` or of any version of solo-learn."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_ARGS_BYTES + 1)
        if len(content) > MAX_ARGS_BYTES:
            raise ValueError(f"larger than {MAX_ARGS_BYTES} bytes")
        args = json.loads(content)
        expected = args.pop(CHECKSUM_KEY, None)  # asbc-pretrain writes it, solo-learn does not
        if expected is not None and expected != json_checksum(args):
            raise ValueError("its checksum differs")
        backbone = args.get("backbone", args.get("encoder"))  # "encoder" before solo-learn 1.0.3
        if isinstance(backbone, Mapping):
            name, kwargs = backbone["name"], dict(backbone.get("kwargs") or {})
        else:
            name, kwargs = backbone, dict(args.get("backbone_args", args.get("encoder_args")) or {})
        dataset = args["data"]["dataset"] if "data" in args else args["dataset"]
        if not isinstance(name, str) or not isinstance(dataset, str):
            raise TypeError("backbone and dataset must be strings")
        if unknown := kwargs.keys() - _BACKBONE_OPTIONS:
            raise ValueError(f"{name} with {', '.join(sorted(unknown))} is not supported")
        own, view = args.get("asbc"), None
        stem = 2 if dataset in CIFAR_NAMES else None  # solo-learn pads by 2
        if own is not None:
            size, stem, scale = own["image_size"], own["padding"], np.array([own["mean"], own["std"]], float)
            good = type(size) is int and 1 <= size <= 4096 and stem in (None, 0, 1, 2, 3)
            if not good or scale.shape != (2, 3) or not np.isfinite(scale).all() or scale[1].min() <= 0:
                raise ValueError("image_size, padding, mean or std is out of range")
            view = (size, *scale.tolist())
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {shorten(first_line(error))}"
        raise ValueError(f"{path}: damaged, or not an args.json of solo-learn ({reason})") from error
    return _Args(name, dataset, args.get("method"), stem, view)


def _vit(
    state: Mapping[str, Tensor], networks: set[str], args: _Args, padding: int | None
) -> tuple[str, str, int, nn.Module]:
    """Return name, details, image size and network of a ViT with these weights."""
    width, patch = state["cls_token"].shape[-1], state["patch_embed.proj.weight"].shape[-1]
    name = next((name for name, known in _VIT_WIDTH.items() if known == width), None)
    if name is None:
        raise ValueError(f"a ViT of width {width} is not supported, only {', '.join(_VIT_WIDTH)}")
    # Weights do not show the number of heads: in solo-learn 12 for MoCo v3 and MAE, whatever the width. MAE has a
    # decoder; MoCo v3 has the same networks as BYOL.
    if args.backbone is None and {"predictor", "momentum_projector"} <= networks and name != "vit_base":
        raise ValueError(
            "the weights do not show the number of heads of the ViT (12 for MoCo v3, fewer for BYOL), which changes "
            "the features; put args.json next to the file"
        )
    many = args.method in ("mocov3", "mae") or (args.backbone is None and "decoder" in networks)
    heads = 12 if many else width // 64
    size = math.isqrt(state["pos_embed"].shape[1] - 1) * patch  # one position is the class token's
    sizes = {"img_size": size, "patch_size": patch, "embed_dim": width, "num_heads": heads}
    return name, f"{heads} heads", size, VisionTransformer(**sizes, depth=12, num_classes=0)


def _resnet(
    state: Mapping[str, Tensor], networks: set[str], args: _Args, padding: int | None
) -> tuple[str, str, int, nn.Module]:
    """Return name, details, image size and network of a ResNet with these weights."""
    bottleneck = "layer1.0.conv3.weight" in state
    blocks = tuple(len({key.split(".")[1] for key in state if key.startswith(f"layer{i}.")}) for i in range(1, 5))
    known = {(block is Bottleneck, layers): name for name, (block, layers) in RESNETS.items()}
    # For unknown numbers of blocks, loading the weights reports what is missing or left over.
    name = known.get((bottleneck, blocks), "resnet50" if bottleneck else "resnet18")
    width, *_, kernel = state["conv1.weight"].shape
    solo_learn = args.backbone is None and "classifier" in networks  # which all of its methods have
    padding = padding or (2 if solo_learn else args.padding)
    if kernel == 3 and padding is None:
        raise ValueError(
            "the weights do not show the padding of the first convolution (3 x 3), which changes the features; give "
            "padding=2 (solo-learn) or padding=1 (stable-pretraining and most others)"
        )
    details = "CIFAR stem" if kernel == 3 else "ImageNet stem"
    details += f", width {width}" if width != STANDARD_WIDTH else ""
    details += ", padding 1" if kernel == 3 and padding == 1 else ""
    model = resnet(name, padding if kernel == 3 else None, width)
    return name, details, 32 if kernel == 3 else 224, model


# ResNets


def resnet(name: str, padding: int | None = 2, width: int = STANDARD_WIDTH) -> nn.Module:
    """Return a ResNet without classifier, with random weights.

    `padding` is that of the CIFAR stem, a 3 x 3 first convolution without pooling. solo-learn's is 2, so that a 32 x 32
    image gives a 34 x 34 feature map. None selects the ImageNet stem. The first layer has `width` channels, and each of
    the other three twice as many as the one before.
    """
    if type(width) is not int or not 1 <= width <= 4096:
        raise ValueError(f"width must be an integer between 1 and 4096, got {width!r}")
    block, layers = RESNETS[name]
    model = _ResNet(block, layers, width)
    if padding is not None:
        model.conv1 = nn.Conv2d(3, width, kernel_size=3, stride=1, padding=padding, bias=False)
        model.maxpool = nn.Identity()
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.fc = nn.Identity()
    return model


class _ResNet(ResNet):
    """torchvision's ResNet with another number of channels in the first layer."""

    def __init__(self, block: Any, layers: Any, width: int) -> None:
        self.__dict__["width"] = width  # before nn.Module is initialised, which builds the layers
        super().__init__(block, list(layers))

    def _make_layer(self, block: Any, planes: int, *args: Any, **kwargs: Any) -> nn.Sequential:
        if planes == STANDARD_WIDTH and self.width != STANDARD_WIDTH:  # the first layer
            self.inplanes = self.width
            self.conv1 = nn.Conv2d(3, self.width, kernel_size=7, stride=2, padding=3, bias=False)
            self.bn1 = self._norm_layer(self.width)
        return super()._make_layer(block, planes * self.width // STANDARD_WIDTH, *args, **kwargs)


# timm


def timm_files(
    model: str | None, path: str | Path | None = None, cache: str | os.PathLike | None = None
) -> list[RemoteFile]:
    """Return the files that a timm model needs: ``config.json`` of a repository, and the weights unless in `path`."""
    if not model:
        raise ValueError("model: no timm model given; for example vit_small_patch16_224.dino")
    kind, _, place = model.partition(":")
    if place:
        wanted = [("config.json",), *([] if path else [HUB_WEIGHTS])]
        return [] if kind == "local-dir" else [_hub_file(place, names, cache) for names in wanted]
    if path:
        return []
    config: Any = timm.get_pretrained_cfg(model) if model in timm.list_pretrained() else None
    if config is None or config.custom_load or not config.hf_hub_id:
        names = ", ".join(timm.list_pretrained(f"{model.partition('.')[0]}.*")) or "none"
        raise ValueError(
            f"model={model!r} does not name weights that asbc reads: give path=<file of weights>, or the full name of "
            f"weights in timm's hub ({names})"
        )
    named = config.hf_hub_filename
    return [_hub_file(config.hf_hub_id, (named,) if named else HUB_WEIGHTS, cache)]


def _hub_file(repository: str, names: tuple[str, ...], cache: str | os.PathLike | None) -> RemoteFile:
    """Return the first of several files of ``user/name`` or ``user/name@revision`` that is on this machine.

    If none is, the result has the place for the first one.
    """
    from huggingface_hub import constants, try_to_load_from_cache

    name, _, revision = repository.partition("@")
    folder = cache_folder(cache) / "hub" / repository
    places = [folder / each for each in names]
    places += [Path(str(try_to_load_from_cache(name, each, revision=revision or None))) for each in names]
    url = f"{constants.ENDPOINT}/{name}/resolve/{revision or 'main'}/{names[0]}"
    return RemoteFile(url, next((place for place in places if place.is_file()), places[0]), hub=(repository, *names))


def timm_model(
    model: str,
    files: Sequence[Path],
    path: str | Path | None = None,
    trust_checkpoint: bool = False,
    prefix: str | None = None,
) -> Encoder:
    """Return a timm model with its own transform.

    Parameters
    ----------
    model : str
        ``"name.tag"`` for weights from timm's hub, ``"name"`` for an architecture with weights in `path`,
        ``"hf-hub:user/name"`` for a timm model on the Hugging Face hub, ``"local-dir:folder"`` for a folder with the
        same files (``config.json`` and ``model.safetensors``).
    files : sequence of Path
        The files of `timm_files`.
    path, trust_checkpoint, prefix
        As in `asbc.embeddings.EncoderSource`.
    """
    kind, _, place = model.partition(":")
    folder = Path(place).expanduser() if kind == "local-dir" else files[0].parent if place else None
    try:
        network: Any = timm.create_model(f"local-dir:{folder}" if folder else model, pretrained=False, num_classes=0)
    except Exception as error:  # timm raises many kinds
        raise ValueError(f"timm cannot create model={model!r}: {first_line(error)}") from error
    if path:
        file = Path(path).expanduser()
    elif folder and not files:
        file = next((folder / name for name in HUB_WEIGHTS if (folder / name).is_file()), folder / HUB_WEIGHTS[0])
    else:
        file = files[-1]
    everything = read_state(file, trust_checkpoint)
    state = select_weights(everything, prefix, file) if prefix else everything
    head = network.pretrained_cfg.get("classifier") or ()  # one name or several
    heads = tuple(f"{name}." for name in ([head] if isinstance(head, str) else head))
    state = {key: value for key, value in state.items() if not key.startswith(heads)}
    hint = "" if prefix else f". prefix= names a network in the file. {list_prefixes(everything)}"
    load_strictly(network, state, f"{file} as {model}", hint)
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config, is_training=False)
    origin = f"timm {model}" + (f" from {file.name}" if path else "")
    return Encoder(network.eval(), transform, tuple(config["input_size"][1:]), f"timm {model}", origin)


# Files of weights


def read_weights(file: Path, trust_checkpoint: bool = False) -> Any:
    """Return what a file of weights holds; code in it is not run unless `trust_checkpoint` allows it.

    Parameters
    ----------
    file : Path
        ``.safetensors``, or a file that ``torch.save`` wrote.
    trust_checkpoint : bool, default=False
        Unpickle everything in the file. That can run any code: only for files from people you trust.

    See Also
    --------
    read_checkpoint : builds the encoder, too.

    Examples
    --------
    >>> import tempfile, torch
    >>> from pathlib import Path
    >>> from asbc.embeddings import read_weights
    >>> file = Path(tempfile.mkdtemp()) / "weights.pt"
    >>> torch.save({"bias": torch.ones(2)}, file)
    >>> read_weights(file)
    {'bias': tensor([1., 1.])}
    """
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file of weights")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        if zipfile.is_zipfile(file):  # torch does not compare the checksums in the archive
            with zipfile.ZipFile(file) as archive:
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                    raise ValueError("its archive is compressed, which torch.save never does")
                damaged = archive.testzip()
            if damaged is not None:
                raise ValueError(f"the checksum of {damaged} differs")
        return torch.load(file, map_location="cpu", weights_only=not trust_checkpoint)
    except OSError:
        raise
    except Exception as error:  # a damaged archive makes torch raise almost anything
        called = re.search(r"GLOBAL ([\w.]+)|allowlisted.* got (.+)", str(error), re.DOTALL)
        if called is None or not isinstance(error, pickle.UnpicklingError):
            raise ValueError(f"{file}: damaged, or not a file of weights ({first_line(error)})") from error
        raise ValueError(
            f"{file}: refused, reading it would call {shorten(called[1] or called[2])}, which plain weights never do. "
            "Nothing in it was run. If you trust its author, trust_checkpoint=true reads it."
        ) from error


def read_state(file: Path, trust_checkpoint: bool = False) -> dict[str, Tensor]:
    """Return all weights of a file by name, unwrapped from the dictionaries that training programs put around them.

    Lightning has the weights under ``state_dict``, others under ``model``. If there are several networks, such as
    ``teacher`` and ``student``, their names become the first part of the weights' names.
    """
    content = read_weights(file, trust_checkpoint)
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping):
        raise ValueError(f"{file}: expected a dictionary of weights, got {type(content).__name__}")
    networks = {f"{name}.": inside for name, inside in content.items() if isinstance(inside, Mapping)}
    if any(isinstance(value, Tensor) for value in content.values()):
        networks = {"": content}
    pairs = [(f"{prefix}{name}", value) for prefix, inside in networks.items() for name, value in inside.items()]
    state = {name: value for name, value in pairs if isinstance(value, Tensor)}
    if not state:
        raise ValueError(f"{file}: holds no weights, but {join(map(str, content)) or 'nothing'}")
    return state


def select_weights(state: Mapping[str, Tensor], prefix: str | None, file: Path) -> dict[str, Tensor]:
    """Return the weights of one network, without its prefix; the error lists the prefixes in the file.

    The prefix ``""`` takes all weights. None tries ``backbone.``, then ``encoder.``, then the only ResNet or ViT.
    """
    networks = encoder_prefixes(state)
    if prefix is None:
        start = next((usual for usual in ("backbone.", "encoder.") if any(key.startswith(usual) for key in state)), "")
    else:
        start = f"{prefix}." if prefix and not prefix.endswith(".") else prefix
    # lightly has the ViT one level below the prefix, next to a mask token.
    found = [start] if start in networks else [name for name in networks if name.startswith(start)]
    if len(found) > 1 or not (found or start):
        raise ValueError(f"{file}: several networks or none, name the encoder with prefix=. {list_prefixes(state)}")
    chosen = found[0] if found else start
    selected = {key[len(chosen) :]: value for key, value in state.items() if key.startswith(chosen)}
    if not selected:
        raise ValueError(f"{file}: no weights start with prefix={chosen!r}. {list_prefixes(state)}")
    return selected


def encoder_prefixes(state: Mapping[str, Tensor]) -> list[str]:
    """Return the prefixes of all ResNets and ViTs, ``""`` for one that has the file to itself."""
    return sorted({found[1] for key in state if (found := _ENCODER_PREFIX.fullmatch(key))})


def list_prefixes(state: Mapping[str, Tensor]) -> str:
    """Return the prefixes of a file's weights for an error message, those of encoders first."""
    networks = [repr(prefix) for prefix in encoder_prefixes(state)]
    counts = Counter(key.partition(".")[0] + "." if "." in key else key for key in state)
    counted = ", ".join([f"{shorten(name)} ({count} weights)" for name, count in counts.items()][:12])
    more = ", ..." if len(counts) > 12 else ""
    return f"ResNets and ViTs have the prefixes {', '.join(networks) or 'none'}; the file has {counted}{more}."


def load_strictly(model: nn.Module, state: Mapping[str, Tensor], what: str, hint: str = "") -> None:
    """Load weights into a model, or raise a ValueError that counts and names those that do not fit."""
    expected = model.state_dict()
    differing = [name for name in expected if name in state and state[name].shape != expected[name].shape]
    problems = {
        "missing": [name for name in expected if name not in state],
        "unexpected": [name for name in state if name not in expected],
        "of another shape": [f"{n} {tuple(state[n].shape)} for {tuple(expected[n].shape)}" for n in differing],
    }
    listed = [f"{len(names)} {kind}: {join(names, 5)}" for kind, names in problems.items() if names]
    if listed:
        raise ValueError(f"{what}: the weights do not fit. {'; '.join(listed)}{hint}")
    for name, value in state.items():
        if value.untyped_storage().nbytes() < value.numel() * value.element_size():
            raise ValueError(f"{what}: {shorten(name)} declares more numbers than the file holds")
    model.load_state_dict({name: value.to(expected[name].dtype) for name, value in state.items()}, assign=True)


def shorten(name: str, most: int = 100) -> str:
    """Return a printable name of at most `most` characters; a file may call its weights anything."""
    shown = name if name.isprintable() else repr(name)
    return shown if len(shown) <= most else f"{shown[:most]}... ({len(name):,} characters)"


def join(names: Iterable[str], most: int = 8) -> str:
    """Return the first `most` names, shortened and joined."""
    first = [shorten(name) for name in itertools.islice(names, most + 1)]
    return ", ".join(first[:most]) + (", ..." if len(first) > most else "")
