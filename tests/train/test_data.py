import numpy as np
import pytest
import torch
from lightly.transforms import SimCLRTransform
from torchvision.datasets import ImageFolder

from asbc.train import ImageArrays
from asbc.train.data import TrainingData, drop_idle_steps

from .small import write_images


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return ImageArrays(write_images(tmp_path_factory.mktemp("images") / "a.npz", n=21))


def batches(images, epoch=0, first=0, rank=0, world=1, **kwargs):
    views = drop_idle_steps(SimCLRTransform(input_size=12, gaussian_blur=kwargs.pop("blur", 0.5)))
    return TrainingData(images, views, **{"batch_size": 4, "seed": 5, **kwargs}).batches(epoch, first, rank, world)


def gathered(loader):
    return [torch.stack(views) for views in loader]


def test_an_epoch_has_every_image_once_in_an_order_of_its_own(images):
    loader = batches(images)
    assert len(loader) == 5
    first, second = loader.dataset.rows, batches(images, 1).dataset.rows
    assert len(np.unique(first)) == first.size == 20
    assert not np.array_equal(first, second) and np.array_equal(first, batches(images).dataset.rows)
    shares = [batches(images, rank=rank, world=2).dataset.rows for rank in (0, 1)]
    assert [share.shape for share in shares] == [(2, 4)] * 2
    assert len(np.unique(np.concatenate(shares))) == 16


def test_the_same_seed_gives_the_same_views_whatever_else_draws(images):
    whole = gathered(batches(images))
    assert whole[0].shape == (2, 4, 3, 12, 12) and not torch.equal(whole[0][0], whole[0][1])
    torch.manual_seed(77)
    before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    again = gathered(batches(images, num_workers=1))
    assert all(torch.equal(a, b) for a, b in zip(whole, again, strict=True))
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002
    assert not torch.equal(whole[0], gathered(batches(images, 1))[0])


def test_it_goes_on_in_the_middle_of_an_epoch(images):
    whole, rest = gathered(batches(images, 3)), gathered(batches(images, 3, first=2))
    assert len(rest) == 3 and all(torch.equal(a, b) for a, b in zip(whole[2:], rest, strict=True))


def test_images_may_share_a_draw(images):
    views = gathered(batches(images, together=2, blur=0.0))
    assert views[0].shape == (2, 4, 3, 12, 12)
    # Two images that share a draw are flipped, cropped and coloured alike: a copy gives the same view.
    double = ImageArrays.__new__(ImageArrays)
    double.images, double.labels = np.repeat(images.images[:1], 8, axis=0), None
    first, second = gathered(batches(double, together=2, blur=0.0))[0]
    assert torch.equal(first[0], first[1]) and torch.equal(first[2], first[3]) and not torch.equal(first[1], first[2])
    assert not torch.equal(first, second)


def test_bad_images_are_named(tmp_path):
    from PIL import Image

    (tmp_path / "a").mkdir()
    for number, size in enumerate((16, 20)):
        Image.fromarray(np.zeros((size, size, 3), np.uint8)).save(tmp_path / "a" / f"{number}.png")
    folder = ImageFolder(tmp_path)
    assert gathered(batches(folder, batch_size=2))[0].shape == (2, 2, 3, 12, 12)
    with pytest.raises(ValueError, match=r"together=2: images must have one size"):
        gathered(batches(folder, batch_size=2, together=2, blur=0.0))
    (tmp_path / "a" / "1.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"image 1 of the data set \(.*1\.png\) cannot be read"):
        gathered(batches(folder, batch_size=2))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"pictures": np.zeros(3)}, r"there is no 'images'; it has pictures"),
        ({"images": np.zeros((4, 8, 8, 3))}, r"must be uint8 \(n, h, w, 3\), got float64 \(4, 8, 8, 3\)"),
        ({"images": np.zeros((4, 8, 8, 3), np.uint8), "labels": np.zeros(3, int)}, "labels must be 4 integers"),
        ({"images": np.array([{}, None])}, "images is an array of Python objects"),
    ],
)
def test_bad_arrays(tmp_path, arrays, said):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=said):
        ImageArrays(tmp_path / "a.npz")


def test_arrays_that_are_no_arrays(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.npz: no such file"):
        ImageArrays(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"not a readable \.npz file"):
        ImageArrays(tmp_path / "a.npz")
