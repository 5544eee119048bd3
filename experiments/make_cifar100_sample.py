"""Pack the vectors of CIFAR-100 test images into asbc/data, for embedding.source=sample.

    python experiments/make_cifar100_sample.py vectors [--scores scores] [--out asbc/data]

`vectors` holds labels.npy and rows.npy (class and row of 30 test images per class) and <encoder>.npy for each encoder
that is ready. `scores` may hold <encoder>.json for the model card: `knn20`, `linear`, `epochs`, `cpu_minutes`, the
`command` that trained it, and `checkpoint`, its file with `name`, `size` and `sha256`. Run the script again when more
encoders are ready.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.storage import atomic_file, file_checksum, write_atomic, write_json

ENCODERS = {
    "simclr": "SimCLR",
    "mocov2": "MoCo v2+",
    "byol": "BYOL",
    "barlow": "Barlow Twins",
    "vicreg": "VICReg",
    "dino": "DINO",
}
CLASSES, PER_CLASS = 100, 30
MAX_BYTES = 5_000_000  # of all files together

CARD = """cifar100_<encoder>.npz: vectors of CIFAR-100 test images from small encoders

What it is
  embeddings  (3000, d) float16  one row per image, as the encoder returned it, not normalised
  labels      (3000,) uint8      the fine class of the image, 0 to 99, in torchvision's order
  rows        (3000,) int16      row of the image in torchvision's test set
  30 test images of each class: the shape of the paper's experiment. The images themselves are not in the files.

What it is not
  These are not the paper's encoders. They are narrow ResNets (one block per layer, a quarter of the channels), trained
  on one CPU core; the paper's are ResNets of full width, trained for hundreds of epochs on GPUs. Use them to try the
  experiments and to compare methods with each other, not to compare accuracies with the paper.

How they were trained: on the 50,000 training images without their labels, by
{commands}
  123 of the images were at another place of their class than in torchvision's order, so the same command gives a
  similar encoder, not the same bits. To compute vectors from a checkpoint:
  asbc-embed embedding=encoder embedding.encoder=<encoder> embedding.path=experiments/checkpoints/<encoder>

How good they are (accuracy on the 10,000 test images; random is the same network before training)
{table}
{checkpoints}
Where the images come from
  Alex Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009;
  https://www.cs.toronto.edu/~kriz/cifar.html. experiments/make_cifar100_sample.py writes the files.
"""


def pack(vectors: Path, out: Path, scores: Path | None = None) -> list[str]:
    """Write a file per encoder, the registry cifar100.json and the model card cifar100.txt; return the encoders."""
    labels, rows = (_read(vectors / f"{name}.npy") for name in ("labels", "rows"))
    if labels.ndim != 1 or labels.shape != rows.shape:
        raise ValueError(f"{vectors}: labels.npy and rows.npy must have one entry per image")
    counts = np.bincount(labels.astype(np.int64), minlength=CLASSES)
    wrong = np.flatnonzero(counts != PER_CLASS)
    if wrong.size or len(counts) != CLASSES:
        label = wrong[0] if wrong.size else CLASSES
        raise ValueError(f"{vectors}: class {label} has {counts[label]} images, expected {PER_CLASS}")
    found = [name for name in ENCODERS if (vectors / f"{name}.npy").exists()]
    if not found:
        raise ValueError(f"{vectors}: has none of {', '.join(f'{name}.npy' for name in ENCODERS)}")
    registry: dict[str, dict[str, Any]] = {}
    for name in found:
        with np.errstate(over="ignore"):
            features = _read(vectors / f"{name}.npy").astype(np.float16)
        if features.ndim != 2 or len(features) != len(labels) or not np.isfinite(features).all():
            raise ValueError(f"{vectors / name}.npy: expected {len(labels)} finite vectors, got shape {features.shape}")
        path = out / f"cifar100_{name}.npz"
        with atomic_file(path) as file:
            arrays = {"embeddings": features, "labels": labels.astype(np.uint8), "rows": rows.astype(np.int16)}
            np.savez_compressed(file, **arrays)
        score = scores / f"{name}.json" if scores else None
        measured = json.loads(score.read_text()) if score and score.exists() else {}
        registry[name] = {"file": path.name, "crc32": file_checksum(path), "d": features.shape[1], **measured}
    size = sum((out / entry["file"]).stat().st_size for entry in registry.values())
    if size > MAX_BYTES:
        raise ValueError(f"{out}: the samples take {size:,} bytes, at most {MAX_BYTES:,} are allowed")
    random = json.loads((scores / "random.json").read_text()) if scores and (scores / "random.json").exists() else {}
    write_json(out / "cifar100.json", {"encoders": registry, "random": random})
    card = CARD.format(commands=_commands(registry), table=_table(registry, random), checkpoints=_checkpoints(registry))
    write_atomic(out / "cifar100.txt", card)
    return found


def _commands(registry: dict[str, dict[str, Any]]) -> str:
    """Return the command that trained each encoder; the recipe's own where the scores give none."""
    plain = "asbc-pretrain encoder=hour/{} data=cifar100 threads=1 trainer.precision=bf16-mixed"
    return "\n".join(f"  {entry.get('command', plain.format(name))}" for name, entry in registry.items())


def _checkpoints(registry: dict[str, dict[str, Any]]) -> str:
    """Return the section about the checkpoints, or nothing if the scores describe none."""
    known = {name: entry["checkpoint"] for name, entry in registry.items() if "checkpoint" in entry}
    if not known:
        return ""
    lines = ["", "Checkpoints: backbone weights, in experiments/checkpoints of the repository, not in the package"]
    for name, file in known.items():
        lines.append(f"  {ENCODERS[name]:14} {file['name']}, {file['size']:,} bytes")
        lines += [f"  {'':14} sha256 {file['sha256']}"] if "sha256" in file else []
    return "\n".join([*lines, ""])


def _table(registry: dict[str, dict[str, Any]], random: dict[str, Any]) -> str:
    columns = {"knn20": "20-NN", "linear": "linear probe", "epochs": "epochs", "cpu_minutes": "CPU minutes"}
    measured = {**{ENCODERS[name]: entry for name, entry in registry.items()}, "random": random}
    used = {key: title for key, title in columns.items() if any(key in entry for entry in measured.values())}
    lines = [f"  {'':14}" + "".join(f"{title:>14}" for title in used.values())]
    for name, entry in measured.items():
        cells = [entry.get(key, "") for key in used]
        shown = [f"{cell:.3f}" if isinstance(cell, float) and cell < 1 else f"{cell}" for cell in cells]
        lines.append(f"  {name:14}" + "".join(f"{cell:>14}" for cell in shown))
    return "\n".join(line.rstrip() for line in lines)


def _read(path: Path) -> NDArray:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: not a readable .npy file ({error})") from error


def main(words: list[str] | None = None) -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "asbc" / "data")
    args = parser.parse_args(words)
    try:
        found = pack(args.vectors, args.out, args.scores)
    except (ValueError, OSError) as error:
        sys.exit(f"make_cifar100_sample.py: {error}")
    missing = [name for name in ENCODERS if name not in found]
    print(f"packed {', '.join(found)}" + (f"; still missing: {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
