import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch.utils.data import TensorDataset
from torchvision.transforms import v2

from asbc.embeddings import cifar as cifars
from asbc.embeddings.datamodule import EmbeddingDataModule
from asbc.embeddings.download import DownloadError

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
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "cat" / "1.png")
    for make in (
        lambda change: ready(torchvision.datasets.CIFAR100(cifar[0], train=False, transform=change)),
        lambda change: ready(torchvision.datasets.CIFAR100(cifar[0], train=False, target_transform=change)),
        lambda change: ready(torchvision.datasets.ImageFolder(tmp_path / "photos", transform=change)),
    ):
        assert len(set(hashes(make))) == 4
        assert hashes(make) == hashes(make)


@pytest.mark.parametrize("name", cifars.CIFAR)
def test_the_archives_are_those_of_torchvision(name, tmp_path):
    kind, known = cifars.cifar_class(name), cifars.ARCHIVES[name]
    assert (known.url, known.md5, known.folder) == (kind.url, kind.tgz_md5, kind.base_folder)
    assert cifars.cifar_archive(name, tmp_path).target == tmp_path / kind.filename


def test_cifar_that_is_not_there(tmp_path, monkeypatch, pauses):
    with pytest.raises(
        DownloadError, match=r"(?s)cifar100: 1 file is missing .*download=false.*cifar-100-python\.tar\.gz"
    ):
        ready("cifar100", root=tmp_path, download=False)
    nowhere = cifars.ARCHIVES["cifar10"]._replace(url="http://127.0.0.1:9/cifar-10-python.tar.gz")
    monkeypatch.setitem(cifars.ARCHIVES, "cifar10", nowhere)
    with pytest.raises(
        DownloadError, match=r"(?s)(refused|no answer).*http://127.*170\.5 MB, MD5 hash c58f.*put it at .*tar\.gz"
    ):
        ready("cifar10", root=tmp_path)
    assert sum(pauses) < 60  # it gives up soon; on a slow machine, after the first try
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"half")
    with pytest.raises(ValueError, match=r"cifar-10-python\.tar\.gz: not the published file"):
        ready("cifar10", root=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": "imagenet"}, "dataset='imagenet': wanted is cifar10, cifar100, imagefolder or a Dataset"),
        ({"dataset": "cifar10", "split": "val"}, "split='val': wanted is train or test"),
        ({"dataset": "imagefolder"}, "root: the folder of images is wanted"),
        ({"batch_size": 0}, "batch_size=0: 1 or more is wanted"),
        ({"dataset": Noise(0)}, "there are no images"),
        ({"dataset": TensorDataset(torch.zeros(2, 1, 8, 8))}, r"image 0 .* shape \(3, 8, 8\) .* \(1, 8, 8\)"),
        ({"dataset": TensorDataset(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))}, "float tensor .* got torch.uint8"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        list(ready(**arguments).predict_dataloader())
