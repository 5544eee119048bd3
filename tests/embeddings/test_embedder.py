import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision.transforms import v2

from asbc.embeddings import Encoder, read_checkpoint
from asbc.embeddings.datamodule import EmbeddingDataModule, embed
from asbc.embeddings.source import EncoderSource
from asbc.embeddings.store import entry_folders, read_entry
from tests.commands import Process
from tests.commands import run as run_command

from .small import TO_TENSOR, Noise, Tiny, tiny_encoder

CPU = {"accelerator": "cpu", "enable_progress_bar": False}
NAMES = {"encoder": "tiny", "source": "function", "dataset": "noise", "split": "test"}


def run(encoder, dataset, cache, batch_size=4, trainer=CPU):
    images = EmbeddingDataModule(dataset, transform=encoder.transform, image_size=(32, 32), batch_size=batch_size)
    return embed(encoder, images, cache, NAMES, trainer)


def direct(encoder, dataset):
    """Features of every image on its own."""
    with torch.inference_mode():
        images = [dataset[i][0] if dataset.labeled else dataset[i] for i in range(len(dataset))]
        return np.concatenate([encoder.model(TO_TENSOR(Image.fromarray(image))[None]).numpy() for image in images])


@pytest.mark.parametrize("labeled", [True, False])
def test_order_count_labels_and_manifest(tmp_path, labeled):
    encoder, dataset = tiny_encoder(), Noise(11, labeled)
    folder = run(encoder, dataset, tmp_path)
    stored = read_entry(folder)
    np.testing.assert_allclose(stored.vectors, direct(encoder, dataset), atol=1e-6)
    assert not stored.vectors.flags.writeable, "memory-mapped"
    assert stored.labels is None if not labeled else list(stored.labels) == [i % 5 for i in range(11)]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {"encoder", "source", "origin", "weights_sha256", "images_sha256", "dataset", "split"} <= set(manifest)
    assert (manifest["shape"], manifest["dtype"]) == ([11, 6], "float32")
    assert {"asbc", "torch"} <= set(manifest["versions"])
    assert "ToDtype" in manifest["normalisation"]
    assert {file.name for file in folder.iterdir()} <= {"vectors.npy", "labels.npy", "manifest.json"}
    assert not list(folder.parent.glob(".draft*"))


def test_same_inputs_no_second_pass(tmp_path):
    encoder = tiny_encoder()
    folder = run(encoder, Noise(9), tmp_path)
    seen = encoder.model.seen
    assert run(encoder, Noise(9), tmp_path, batch_size=2) == folder
    assert encoder.model.seen == seen
    others = [
        run(tiny_encoder(seed=1), Noise(9), tmp_path),
        run(encoder, Noise(10), tmp_path),
        run(encoder, Noise(9), tmp_path, trainer={**CPU, "precision": "bf16-mixed"}),
    ]
    assert len({folder, *others}) == 4
    assert len(entry_folders(tmp_path)) == 4


def test_transforms_that_print_alike_are_told_apart(tmp_path):
    """By what they return; a lambda prints as any other lambda."""

    def through(*steps):
        transform = v2.Compose([TO_TENSOR, *steps])
        return run(Encoder(tiny_encoder().model, transform, (32, 32), "tiny", ""), Noise(3), tmp_path)

    def by(amount):
        return v2.Lambda(lambda image: image * amount)

    steps = [[by(1)], [by(2)], [v2.Normalize([0.1] * 3, [1] * 3)], [v2.Normalize([0.2] * 3, [1] * 3)], []]
    folders = [through(*each) for each in steps]
    assert len(set(folders)) == len(steps)
    assert folders == [through(*each) for each in steps], "the same every time"
    assert not np.allclose(*(read_entry(folder).vectors for folder in folders[:2]))


def test_mixed_precision_is_close_and_stored_as_float32(tmp_path):
    encoder, dataset = tiny_encoder(), Noise(5)
    stored = read_entry(run(encoder, dataset, tmp_path, trainer={**CPU, "precision": "bf16-mixed"}))
    assert stored.vectors.dtype == np.float32
    np.testing.assert_allclose(stored.vectors, direct(encoder, dataset), atol=0.02)


class Stops(Tiny):
    """Fails at the image numbers it is told."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def forward(self, images):
        if self.seen >= self.after:
            raise KeyError("the power is out")
        return super().forward(images)


def test_goes_on_at_the_last_written_batch(tmp_path):
    torch.manual_seed(0)
    model, dataset = Stops(after=3 * 4), Noise(23)
    encoder = Encoder(model.eval(), TO_TENSOR, (32, 32), "tiny", "")
    with pytest.raises(KeyError):
        run(encoder, dataset, tmp_path)
    assert entry_folders(tmp_path) == []
    model.after, model.seen = 1000, 0
    stored = read_entry(run(encoder, dataset, tmp_path))
    assert model.seen == 23 - 12, "the rows that were missing"
    np.testing.assert_allclose(stored.vectors, direct(encoder, dataset), atol=1e-6)


def test_nan_features_are_refused(tmp_path):
    encoder = tiny_encoder()
    nn.init.constant_(encoder.model.net[0].bias, float("nan"))
    with pytest.raises(ValueError, match="NaN or infinite features for 4 of 4 images, the first is image 0"):
        run(encoder, Noise(9), tmp_path)
    assert entry_folders(tmp_path) == []


def test_images_of_the_wrong_size(tmp_path, resnet):
    with pytest.raises(ValueError, match=r"image 0 .* shape \(3, 32, 32\), got torch.float32 \(3, 40, 40\)"):
        run(read_checkpoint(resnet[0]), Noise(3, size=40), tmp_path)
    assert not (tmp_path / "embeddings").exists()


@pytest.mark.parametrize(
    ("layer", "message"),
    [(nn.Identity(), r"shape \(3, d\), got \(3, 3, 32, 32\)"), (nn.Conv2d(4, 1, 1), "refuses")],
)
def test_models_that_are_no_encoders(tmp_path, layer, message):
    with pytest.raises(ValueError, match=message):
        run(Encoder(layer, TO_TENSOR, (32, 32), "", ""), Noise(3), tmp_path)


# ---- real processes

ROOT = Path(__file__).parents[2]
SLOW = "embedding.source={_target_:tests.embeddings.small.tiny_encoder,pause:0.05}"


def embed_command(cache, *overrides):
    """asbc-embed on 23 images of noise."""
    dataset = "embedding.dataset={_target_:tests.embeddings.small.Noise,n:23}"
    words = ["embedding=encoder", dataset, "embedding.batch_size=3", "embedding.trainer.accelerator=cpu", *overrides]
    env = {**os.environ, "ASBC_CACHE": str(cache), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return Process("asbc.embeddings.command", words, cwd=cache.parent, env=env)


def test_two_processes_with_an_odd_last_batch(tmp_path, resnet):
    """gloo: 23 images in batches of 3 are 8 batches, the last of 2. Lightning starts the second process anew."""
    job = embed_command(tmp_path / "cache", f"embedding.path={resnet[0]}", "embedding.trainer.devices=2")
    output = "".join(job.communicate())
    assert job.returncode == 0, output
    assert "MEMBER: 2/2" in output, output
    (folder,) = entry_folders(tmp_path / "cache")
    stored = read_entry(folder)
    assert stored.vectors.shape == (23, 512)
    encoder, dataset = read_checkpoint(resnet[0]), Noise(23)
    images = torch.stack([encoder.transform(Image.fromarray(image)) for image in dataset.images])
    with torch.inference_mode():
        np.testing.assert_allclose(stored.vectors, encoder.model(images).numpy(), atol=1e-5)
    assert list(stored.labels) == [i % 5 for i in range(23)]


def test_two_jobs_at_once_make_one_entry(tmp_path):
    cache = tmp_path / "cache"
    jobs = [embed_command(cache, SLOW) for _ in range(2)]
    outputs = ["".join(job.communicate()) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], outputs
    (folder,) = entry_folders(cache)
    assert all("23 x 6 float32" in output for output in outputs)
    assert sum("waiting for it" in output for output in outputs) <= 1
    assert {file.name for file in (cache / "embeddings").iterdir()} == {folder.name, f".{folder.name}.lock"}


def test_killed_and_started_again(tmp_path):
    cache = tmp_path / "cache"
    held = f"embedding.source={{_target_:tests.embeddings.small.held_encoder,after:6,gate:{tmp_path / 'gate'}}}"
    job = embed_command(cache, held, "embedding.batch_size=1")
    wait_for(lambda: len(list(cache.glob("embeddings/.draft-*/*.npz"))) >= 3, job)
    job.send_signal(signal.SIGKILL)
    job.wait()
    files = sorted(cache.glob("embeddings/.draft-*/*.npz"))
    written = [int(file.stem) for file in files]
    assert 3 <= len(written) < 23
    assert entry_folders(cache) == []
    vectors = np.concatenate([np.load(file)["vectors"] for file in files])

    (tmp_path / "gate").touch()
    again = embed_command(cache, held, "embedding.batch_size=1")
    output = "".join(again.communicate())
    assert again.returncode == 0, output
    assert f"resuming: {len(written)} of 23 rows are done" in output
    (folder,) = entry_folders(cache)
    np.testing.assert_array_equal(read_entry(folder).vectors[written], vectors)
    assert np.isfinite(read_entry(folder).vectors).all()


def wait_for(condition, job):
    while True:
        assert job.poll() is None, job.read()
        try:
            value = condition()
        except (OSError, ValueError):
            value = None
        if value:
            return value
        time.sleep(0.01)


# ---- disks


def on_a_disk(tmp_path, mounts, *numbers):
    """The lines that embedding so many images prints, the commands `mounts` having set up tmp_path/disk."""
    (tmp_path / "disk").mkdir(exist_ok=True)
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        subprocess.run([*unshare, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no mount namespaces here")
    words = [mounts, str(tmp_path / "disk" / "cache"), numbers]
    done = run_command("tests.embeddings.test_embedder:embed_on_a_disk", words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def embed_on_a_disk(mounts, cache, numbers):
    """In a process of its own, whose mounts nobody else sees."""
    NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000  # CLONE_NEWNS and CLONE_NEWUSER of <sched.h>
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS if user == 0 else NEW_MOUNTS | NEW_USER):
        raise OSError(ctypes.get_errno(), "unshare")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for mount in mounts:
        subprocess.run(mount.split(), check=True)
    for n in numbers:
        try:
            print(n, run(tiny_encoder(width=600), Noise(n), cache))
        except OSError as error:
            print(n, type(error).__name__, error)
        print(n, sorted(file.name for file in Path(cache).rglob("*.npy")))
        for draft in Path(cache).rglob(".draft-*"):
            shutil.rmtree(draft)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts as Linux does")
def test_full_disk(tmp_path):
    lines = on_a_disk(tmp_path, ["mount -t tmpfs -o size=300k tmpfs disk"], 200, 20)
    assert lines[0].startswith("200 CacheError cannot write to the cache")  # 480 kB
    assert "No space left on device" in lines[0] and "ASBC_CACHE" in lines[0]
    assert lines[3] == "20 ['labels.npy', 'vectors.npy']", "a small entry fits"


@pytest.mark.skipif(sys.platform != "linux", reason="mounts as Linux does")
def test_read_only_cache_can_still_be_read(tmp_path):
    folder = run(tiny_encoder(width=600), Noise(20), tmp_path / "disk" / "cache")
    lines = on_a_disk(tmp_path, ["mount --bind disk disk", "mount -o remount,ro,bind disk"], 20, 21)
    assert lines[0] == f"20 {folder}"
    assert lines[2].startswith("21 CacheError cannot write to the cache")
    assert "Read-only file system" in lines[2] and "ASBC_CACHE" in lines[2]
    assert lines[3] == "21 ['labels.npy', 'vectors.npy']"


def test_disk_that_fills_half_way(tmp_path, monkeypatch):
    """The entry does not appear, and a later job resumes."""
    import errno

    from asbc.embeddings.store import CacheError

    real, calls = np.savez, []

    def full(*args, **arrays):
        calls.append(args)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*args, **arrays)

    monkeypatch.setattr(np, "savez", full)
    encoder = tiny_encoder()
    with pytest.raises(CacheError, match="disk is full"):
        run(encoder, Noise(23), tmp_path)
    assert entry_folders(tmp_path) == []
    monkeypatch.undo()
    np.testing.assert_allclose(
        read_entry(run(encoder, Noise(23), tmp_path)).vectors, direct(encoder, Noise(23)), atol=1e-6
    )


# ---- work


def test_every_image_is_read_and_passes_the_model_once(tmp_path):
    """In batches as they were requested: nothing is done twice, except for the images of the two hashes."""
    read, batches = [], []
    encoder = tiny_encoder()
    encoder.model.register_forward_pre_hook(lambda _, images: batches.append(len(images[0])))

    class Watched(Noise):
        def __getitem__(self, row):
            read.append(row)
            return super().__getitem__(row)

    run(encoder, Watched(96), tmp_path, batch_size=32)
    assert batches == [32, 32, 32]
    read.sort()
    assert set(read) == set(range(96)) and len(read) <= 2 * 96 + 8


# ---- from the configuration


def test_from_images_through_a_checkpoint(resnet, cifar, cache):
    root, images, labels = cifar
    source = EncoderSource("simclr", "checkpoint", str(resnet[0]), root=str(root), download=False, trainer=CPU)
    loaded = source.load()
    assert (loaded.name, loaded.encoder) == ("cifar100", "simclr")
    assert np.array_equal(loaded.labels, labels)
    encoder = read_checkpoint(resnet[0])
    with torch.inference_mode():
        wanted = encoder.model(torch.stack([encoder.transform(Image.fromarray(image)) for image in images]))
    np.testing.assert_allclose(loaded.vectors, wanted.numpy(), atol=1e-5)
    assert source.load().fingerprint == loaded.fingerprint
