"""Small things of the real kinds: a checkpoint as solo-learn writes it, CIFAR-100 as torchvision reads it."""

import hashlib
import pickle
import threading
import time

import numpy as np
import pytest

from .small import checkpoint_of, cifar_resnet18, new_args, write_checkpoint
from .web import CONTENT, Server


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, set as the user would."""
    monkeypatch.setenv("ASBC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pauses(monkeypatch):
    """A list of the seconds that anybody wanted to sleep; nobody does."""
    wanted = []
    monkeypatch.setattr(time, "sleep", wanted.append)
    return wanted


@pytest.fixture(scope="session")
def resnet(tmp_path_factory):
    """A checkpoint folder and the backbone in it."""
    backbone = cifar_resnet18().eval()
    folder = tmp_path_factory.mktemp("checkpoints") / "simclr"
    return write_checkpoint(folder, checkpoint_of(backbone), new_args()), backbone


@pytest.fixture
def cifar(tmp_path, monkeypatch, rng, request):
    """A CIFAR-100 of 23 test images, or as many as are asked for, in torchvision's files and with their md5 sums."""
    import torchvision

    n = getattr(request, "param", 23)
    images = np.clip(rng.normal(128, 40, (n, 32, 32, 3)), 0, 255).astype(np.uint8)
    labels = np.arange(n) % 2
    images[labels == 1, :16] //= 3  # something to tell the classes by
    folder = tmp_path / "images" / "cifar-100-python"
    folder.mkdir(parents=True)
    flat = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    contents = {
        "test": {"data": flat, "fine_labels": labels.tolist()},
        "meta": {"fine_label_names": [f"class {label}" for label in range(100)]},
    }
    md5 = {}
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content))
        md5[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    kind = torchvision.datasets.CIFAR100
    monkeypatch.setattr(kind, "train_list", [])
    monkeypatch.setattr(kind, "test_list", [["test", md5["test"]]])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": md5["meta"]})
    return folder.parent, images, labels


@pytest.fixture
def server():
    server = Server(CONTENT)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
