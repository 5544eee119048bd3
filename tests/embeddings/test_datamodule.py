import tarfile

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch.utils.data import TensorDataset
from torchvision.transforms import v2

from asbc.embeddings import datamodule
from asbc.embeddings.datamodule import EmbeddingDataModule
from asbc.embeddings.download import DownloadError
from asbc.embeddings.store import file_hash

from .small import Noise

TO_TENSOR = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])


def ready(*args, **kwargs):
    module = EmbeddingDataModule(*args, transform=TO_TENSOR, **kwargs)
    module.prepare_data()
    module.setup()
    return module


def rows_of(module):
    return [batch.rows.tolist() for batch in module.predict_dataloader()]


@pytest.mark.parametrize("workers", [0, 2])
def test_cifar_in_order_with_an_odd_last_batch(cifar, workers):
    root, images, labels = cifar
    module = ready("cifar100", "test", root, download=False, batch_size=5, num_workers=workers)
    batches = list(module.predict_dataloader())
    assert [len(batch.rows) for batch in batches] == [5, 5, 5, 5, 3]
    assert torch.cat([batch.rows for batch in batches]).tolist() == list(range(23))
    assert torch.cat([batch.labels for batch in batches]).tolist() == labels.tolist()
    pixels = torch.cat([batch.images for batch in batches]).numpy()
    np.testing.assert_allclose(pixels.transpose(0, 2, 3, 1) * 255, images, atol=1e-4)


@pytest.mark.parametrize(("n", "world"), [(23, 2), (4, 3), (1, 2), (0, 2)])
def test_every_process_its_share_and_every_row_once(n, world, monkeypatch):
    module = ready(Noise(23), batch_size=3)
    module.rows = np.arange(23)[:n]
    shares = []
    for rank in range(world):
        module.trainer = type("Process", (), {"global_rank": rank, "world_size": world})
        shares += [row for batch in rows_of(module) for row in batch]
    assert sorted(shares) == list(range(n))


def test_image_folder(tmp_path):
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            (tmp_path / split / label).mkdir(parents=True)
            Image.new("L", (8, 8), 255).save(tmp_path / split / label / "1.png")  # grey becomes RGB
    (tmp_path / "test" / "dog" / "2.png").write_bytes((tmp_path / "test" / "dog" / "1.png").read_bytes())
    module = ready("imagefolder", "test", tmp_path)
    (batch,) = module.predict_dataloader()
    assert batch.images.shape == (3, 3, 8, 8)
    assert batch.labels.tolist() == [0, 1, 1]
    before = module.content_hash()
    assert ready("imagefolder", "train", tmp_path).content_hash() != before
    Image.new("L", (8, 8), 3).save(tmp_path / "test" / "dog" / "2.png")
    assert ready("imagefolder", "test", tmp_path).content_hash() != before
    assert len(ready("imagefolder", "test", tmp_path / "train").dataset) == 2, "no such sub-folder: the root itself"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_image_is_named_with_its_file(tmp_path, workers):
    (tmp_path / "cat").mkdir()
    for name in "abc":
        Image.new("RGB", (8, 8)).save(tmp_path / "cat" / f"{name}.png")
    content = (tmp_path / "cat" / "b.png").read_bytes()
    for damaged in (content[:-30], b"<html>", b""):
        (tmp_path / "cat" / "b.png").write_bytes(damaged)
        module = ready("imagefolder", root=tmp_path, num_workers=workers)
        with pytest.raises(ValueError, match=r"image 1 of the data set \(.*cat/b\.png\) cannot be read"):
            list(module.predict_dataloader())


def test_tensors_are_taken_as_they_are_and_labels_may_be_absent():
    images = torch.randn(4, 3, 6, 6)
    (batch,) = ready(TensorDataset(images, torch.arange(4))).predict_dataloader()
    assert torch.equal(batch.images, images)
    assert batch.labels.tolist() == [0, 1, 2, 3]
    (batch,) = ready(Noise(3, labeled=False)).predict_dataloader()
    assert len(batch.labels) == 0


def test_content_hash_tells_data_apart(cifar):
    root, _, _ = cifar
    one = ready("cifar100", "test", root, download=False)
    assert one.content_hash() == ready("cifar100", "test", root, download=False).content_hash()
    one.dataset.targets[0] += 1
    assert one.content_hash() != ready("cifar100", "test", root, download=False).content_hash()
    assert ready(Noise(5)).content_hash() == ready(Noise(5)).content_hash() != ready(Noise(6)).content_hash()
    named = Noise(5)
    named.fingerprint = "version 2"
    assert ready(named).content_hash() != ready(Noise(5)).content_hash()


class Held(Noise):
    """Holds its images as CIFAR does, and changes them on the way out."""

    def __init__(self, n, transform=None):
        super().__init__(n)
        self.data, self.targets, self.transform = self.images, [0] * n, transform

    def __getitem__(self, row):
        image = self.data[row]
        return (self.transform(image) if self.transform else image), 0


def test_a_data_sets_own_transform_is_part_of_its_content(cifar, tmp_path):
    def hashes(make):
        changes = [
            None,
            lambda image: image,
            lambda image: np.asarray(image) // 2,
            lambda image: np.asarray(image) // 3,
        ]
        return [make(change).content_hash() for change in changes]

    held = hashes(lambda change: ready(Held(3, change)))
    assert held[0] == held[1] and len(set(held)) == 3, "by what it gives"
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    Image.new("RGB", (8, 8), "teal").save(tmp_path / "photos" / "cat" / "1.png")
    for make in (
        lambda change: ready(torchvision.datasets.CIFAR100(cifar[0], train=False, transform=change)),
        lambda change: ready(torchvision.datasets.ImageFolder(tmp_path / "photos", transform=change)),
    ):
        assert len(set(hashes(make))) == 3
        assert hashes(make) == hashes(make)
    kind = torchvision.datasets.CIFAR100
    plain, other = (ready(kind(cifar[0], False, target_transform=change)) for change in (None, lambda label: 1 - label))
    assert plain.content_hash() != other.content_hash()


def test_cifar_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(
        DownloadError, match=r"(?s)cifar100: 1 file is missing .*download=false.*cifar-100-python\.tar\.gz"
    ):
        ready("cifar100", root=tmp_path, download=False)
    monkeypatch.setattr(datamodule.CIFAR["cifar10"], "url", "http://127.0.0.1:9/cifar-10-python.tar.gz")
    with pytest.raises(
        DownloadError, match=r"(?s)(refused|no answer).*http://127.*170\.5 MB, md5:c58f.*put it at .*tar\.gz"
    ):
        ready("cifar10", root=tmp_path)


def test_an_archive_that_was_put_there_is_unpacked(tmp_path, cifar, monkeypatch):
    """What the message asks for is enough; and the download stops there, too."""
    kind, folder = torchvision.datasets.CIFAR100, cifar[0]
    with tarfile.open(tmp_path / kind.filename, "w:gz") as archive:
        archive.add(folder / kind.base_folder, kind.base_folder)
    monkeypatch.setattr(kind, "tgz_md5", file_hash(tmp_path / kind.filename, "md5"))
    assert len(ready("cifar100", root=tmp_path, download=False).dataset) == 23


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": "imagenet"}, "dataset='imagenet': expected cifar10, cifar100, imagefolder or a Dataset"),
        ({"dataset": "cifar10", "split": "val"}, "split='val': expected train or test"),
        ({"dataset": "imagefolder"}, "root: no folder of images given"),
        ({"batch_size": 0}, "batch_size=0: must be at least 1"),
        ({"dataset": Noise(0)}, "has no images"),
        ({"dataset": TensorDataset(torch.zeros(2, 1, 8, 8))}, r"image 0 .* shape \(3, 8, 8\), .* \(1, 8, 8\)"),
        ({"dataset": TensorDataset(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))}, "float tensor .* got torch.uint8"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        list(ready(**arguments).predict_dataloader())
