"""Measure encoders of CIFAR-100 that asbc-pretrain trained, and keep what make_cifar100_sample.py packs.

    python experiments/score_encoders.py trained_models scored [--train train.npz --test test.npz]

`trained_models` has a folder <encoder>/cifar100 per encoder. Without --train and --test, the images come from
torchvision. `scored` gets vectors/<encoder>.npy of the first 30 test images of each class, scores/<encoder>.json with
the accuracies, and checkpoints/<encoder> with the weights of the backbone alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from asbc import normalize
from asbc.embeddings import EncoderSource, read_weights
from asbc.storage import atomic_file, write_atomic
from asbc.train import ImageArrays

PER_CLASS = 30
SPLITS = ("train", "test")
Split = tuple[np.ndarray, np.ndarray]  # vectors and labels


def embed(folder: Path, name: str, images: dict[str, Any]) -> tuple[Split, Split]:
    """Return the vectors and labels of the training and test images."""
    found = [
        EncoderSource(name, "checkpoint", str(folder), dataset=images[split], split=split).load() for split in SPLITS
    ]
    first, second = ((np.asarray(each.vectors, np.float32), each.labels) for each in found)
    return first, second


def vote_accuracy(train: Split, test: Split, k: int = 20) -> float:
    """Return the accuracy of the vote of the k nearest training images, weighted by exp(cosine / 0.1)."""
    bank, hits = normalize(train[0]), 0
    for start in range(0, len(test[0]), 500):
        cosine = normalize(test[0][start : start + 500]) @ bank.T
        nearest = np.argpartition(-cosine, k, axis=1)[:, :k]
        votes = np.zeros((len(cosine), int(train[1].max()) + 1))
        rows = np.arange(len(cosine))[:, None]
        np.add.at(votes, (rows, train[1][nearest]), np.exp(cosine[rows, nearest] / 0.1))
        hits += int((votes.argmax(1) == test[1][start : start + 500]).sum())
    return hits / len(test[0])


def linear_accuracy(train: Split, test: Split) -> float:
    """Return the accuracy of logistic regression on standardised features."""
    return float(make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(*train).score(*test))


def keep_backbone(folder: Path, out: Path) -> dict[str, Any]:
    """Write the backbone's weights and args.json; return name, size and hash of the checkpoint."""
    file = next(folder.glob("*.ckpt"))
    weights = read_weights(file)["state_dict"]
    backbone = {name: value for name, value in weights.items() if name.startswith("backbone.")}
    out.mkdir(parents=True, exist_ok=True)
    with atomic_file(out / file.name) as target:
        torch.save({"state_dict": backbone}, target)
    write_atomic(out / "args.json", (folder / "args.json").read_text())
    content = (out / file.name).read_bytes()
    name = f"{out.name}/{file.name}"
    return {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def score(folder: Path, name: str, images: dict[str, Any], out: Path) -> dict[str, Any]:
    """Measure one encoder and write its files."""
    train, test = embed(folder, name, images)
    rows = np.sort(np.concatenate([np.flatnonzero(test[1] == label)[:PER_CLASS] for label in np.unique(test[1])]))
    for part in ("vectors", "scores"):
        (out / part).mkdir(parents=True, exist_ok=True)
    for part, array in ((name, test[0][rows]), ("labels", test[1][rows]), ("rows", rows)):
        np.save(out / "vectors" / f"{part}.npy", array)
    epochs = json.loads((folder / "args.json").read_text())["max_epochs"]
    found = {
        "knn20": round(vote_accuracy(train, test), 4),
        "linear": round(linear_accuracy(train, test), 4),
        "epochs": epochs,
        "command": f"asbc-pretrain encoder=hour/{name} encoder.epochs={epochs} data=cifar100 threads=1 "
        "trainer.precision=bf16-mixed",
        "checkpoint": keep_backbone(folder, out / "checkpoints" / name),
    }
    write_atomic(out / "scores" / f"{name}.json", json.dumps(found, indent=2) + "\n")
    return found


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", help=".npz with images and labels")
    parser.add_argument("--test", help=".npz with images and labels")
    args = parser.parse_args()
    images = {split: ImageArrays(path) if path else "cifar100" for split, path in vars(args).items() if split in SPLITS}
    for folder in sorted(args.models.glob("*/cifar100")):
        found = score(folder, folder.parent.name, images, args.out)
        print(f"{folder.parent.name}: 20-NN {found['knn20']:.3f}, linear probe {found['linear']:.3f}", flush=True)


if __name__ == "__main__":
    main()
