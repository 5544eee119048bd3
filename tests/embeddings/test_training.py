"""DataModules for training, and the examples of docs/encoders.md that use them."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from asbc.embeddings import Digits, EmbeddingDataModule, VectorDataModule

from .small import Noise, checkpoint_of, cifar_resnet18, new_args, write_checkpoint

GUIDE = (Path(__file__).parents[2] / "docs" / "encoders.md").read_text()
BLOCKS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", GUIDE, re.DOTALL))


def labels_of(loader):
    return torch.cat([labels for _, labels in loader]).tolist()


def test_images_are_split_for_training():
    images, test = (torch.arange(n * 3 * 4 * 4.0).reshape(n, 3, 4, 4) for n in (20, 5))
    data = EmbeddingDataModule(
        TensorDataset(images, torch.arange(20)),
        test_dataset=TensorDataset(test, torch.arange(5)),
        batch_size=6,
        val_fraction=0.25,
    )
    data.setup("fit")
    first, second = labels_of(data.train_dataloader()), labels_of(data.train_dataloader())
    assert sorted(first) == sorted(second) and first != second, "each epoch has its own order"
    held_out = labels_of(data.val_dataloader())
    assert len(held_out) == 5 and sorted(first + held_out) == list(range(20)), "each image once"
    assert labels_of(data.val_dataloader()) == held_out
    assert labels_of(data.test_dataloader()) == list(range(5))
    pixels, labels = next(iter(data.train_dataloader()))
    assert torch.equal(pixels, images[labels])


def test_training_has_its_own_transform():
    def transform(value):
        return lambda image: torch.full((3, 8, 8), value)

    data = EmbeddingDataModule(Noise(10), transform=transform(0.0), train_transform=transform(1.0))
    data.setup()
    assert next(iter(data.train_dataloader()))[0].mean() == 1
    assert next(iter(data.val_dataloader()))[0].mean() == next(iter(data.predict_dataloader())).images.mean() == 0


def test_what_training_refuses():
    data = EmbeddingDataModule(Noise(10, labeled=False), transform=lambda image: torch.zeros(3, 8, 8))
    data.setup()
    with pytest.raises(ValueError, match="has no label, which training needs"):
        next(iter(data.train_dataloader()))
    with pytest.raises(ValueError, match="no test images: give test_dataset"):
        data.test_dataloader()
    with pytest.raises(ValueError, match="val_fraction=1"):
        EmbeddingDataModule(Noise(10), val_fraction=1)


def test_stored_vectors_are_split_for_training(tmp_path):
    vectors, labels = np.arange(40.0).reshape(20, 2), np.array(["a", "b", "", "a"] * 5)
    data = VectorDataModule(vectors, labels, val_fraction=0.2, test_fraction=0.2)
    assert data.classes.tolist() == ["a", "b"] and data.num_features == 2
    loaders = data.train_dataloader(), data.val_dataloader(), data.test_dataloader()
    seen = [(float(x), int(y)) for loader in loaders for xs, ys in loader for x, y in zip(xs[:, 0], ys, strict=True)]
    wanted = [(2.0 * i, {"a": 0, "b": 1}[label]) for i, label in enumerate(labels) if label]
    assert sorted(seen) == sorted(wanted), "every labelled row once"
    assert [len(labels_of(loader)) for loader in loaders] == [9, 3, 3]
    assert len(labels_of(data.predict_dataloader())) == 20
    np.savez(tmp_path / "a.npz", embeddings=vectors, labels=labels)
    assert torch.equal(VectorDataModule(tmp_path / "a.npz").vectors, data.vectors)
    with pytest.raises(ValueError, match="labels is None; pass one label per node"):
        VectorDataModule(vectors)
    with pytest.raises(ValueError, match="their sum below 1"):
        VectorDataModule(Digits().load(), val_fraction=0.5, test_fraction=0.5)


def run_example(name, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scope = {"__name__": "example"}
        exec(compile(BLOCKS[name], name, "exec"), scope)
    return scope, capsys.readouterr().out


def test_the_guides_probe_of_images(tmp_path, monkeypatch, capsys):
    write_checkpoint(tmp_path / "trained_models" / "simclr" / "photos", checkpoint_of(cifar_resnet18()), new_args())
    rng = np.random.default_rng(0)
    for split, n in (("train", 12), ("test", 6)):
        for label, light in (("dark", 0), ("light", 155)):
            (tmp_path / "photos" / split / label).mkdir(parents=True)
            for number in range(n):
                pixels = rng.integers(light, light + 100, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "photos" / split / label / f"{number}.png")
    scope, _ = run_example("probe.py", tmp_path, monkeypatch, capsys)
    assert scope["trainer"].callback_metrics["accuracy"] > 0.9, "dark and light images are easy"
    frozen = cifar_resnet18().state_dict()["layer1.0.conv1.weight"]
    assert torch.equal(scope["encoder"].model.layer1[0].conv1.weight.cpu(), frozen)
    code = BLOCKS["probe.py"]
    body = code[code.index("class Probe") :].strip().splitlines()
    assert len([line for line in body if line.strip()]) <= 18


def test_the_guides_probe_of_vectors(tmp_path, monkeypatch, capsys):
    scope, _ = run_example("vectors.py", tmp_path, monkeypatch, capsys)
    assert scope["trainer"].callback_metrics["accuracy"] > 0.8


def test_the_guides_load(tmp_path, monkeypatch, capsys):
    _, printed = run_example("load.py", tmp_path, monkeypatch, capsys)
    assert printed.strip() == re.search(r"print\(embeddings\)  # (.*)", BLOCKS["load.py"])[1]
