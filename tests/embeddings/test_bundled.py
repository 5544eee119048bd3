"""embedding.source=sample: files in the package with a checksum each, and the script that writes them."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from asbc.configs import conf_dir
from asbc.embeddings import EncoderSource, read_checkpoint, source
from asbc.storage import read_json
from experiments.make_cifar100_sample import ENCODERS, MAX_BYTES, main, pack
from tests.commands import call


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Vectors of 30 images per class for the six encoders, as the training leaves them."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("vectors")
    labels = np.repeat(np.arange(100, dtype=np.uint8), 30)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "rows.npy", np.arange(3000, dtype=np.int32) * 3)
    centres = rng.normal(0, 1, (100, 8))
    for name in ENCODERS:
        np.save(folder / f"{name}.npy", (centres[labels] + rng.normal(0, 0.7, (3000, 8))).astype(np.float16))
    return folder


@pytest.fixture
def packed(vectors, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "DATA", tmp_path)
    pack(vectors, tmp_path)
    return tmp_path


def test_all_six_are_read_as_they_were_packed(vectors, packed):
    for name in ENCODERS:
        sample = EncoderSource(name, "sample").load()
        assert (sample.name, sample.encoder, sample.vectors.dtype) == ("cifar100", name, np.float32)
        np.testing.assert_array_equal(sample.vectors, np.load(vectors / f"{name}.npy").astype(np.float32))
        assert np.array_equal(np.bincount(sample.labels), np.full(100, 30)), "the paper's shape"
    with np.load(packed / "cifar100_byol.npz") as arrays:
        assert arrays["embeddings"].dtype == np.float16 and arrays["rows"][-1] == 2999 * 3
    first = (packed / "cifar100_byol.npz").read_bytes()
    pack(vectors, packed)
    assert (packed / "cifar100_byol.npz").read_bytes() == first, "the same bytes every time"


def test_the_model_card(vectors, tmp_path):
    (tmp_path / "scores").mkdir()
    command = "asbc-pretrain encoder=hour/byol encoder.epochs=28 data=cifar100"
    checkpoint = {"name": "byol-cifar100-ep=28.ckpt", "size": 8700000, "sha256": "5" * 64}
    (tmp_path / "scores" / "simclr.json").write_text(json.dumps({"knn20": 0.2431, "linear": 0.31, "epochs": 40}))
    (tmp_path / "scores" / "byol.json").write_text(json.dumps({"command": command, "checkpoint": checkpoint}))
    (tmp_path / "scores" / "random.json").write_text(json.dumps({"knn20": 0.114}))
    pack(vectors, tmp_path, tmp_path / "scores")
    text = (tmp_path / "cifar100.txt").read_text()
    assert re.search(r"SimCLR +0\.243 +0\.310 +40\n", text) and re.search(r"random +0\.114\n", text)
    assert "not the paper's encoders" in text and "Krizhevsky" in text and "asbc-pretrain" in text
    assert f"  {command}\n" in text and "asbc-pretrain encoder=hour/simclr data=cifar100" in text
    assert re.search(rf"BYOL +byol-cifar100-ep=28\.ckpt, 8,700,000 bytes\n +sha256 {'5' * 64}\n", text)
    assert all(len(line) <= 120 for line in text.splitlines())
    card = read_json(tmp_path / "cifar100.json")["encoders"]
    assert card["simclr"]["knn20"] == 0.2431 and card["byol"]["checkpoint"] == checkpoint


def test_a_damaged_sample_is_one_clear_line(packed):
    content = (packed / "cifar100_dino.npz").read_bytes()
    for damaged in (content[:-1] + b"?", content[:100]):
        (packed / "cifar100_dino.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"^[^\n]*cifar100_dino\.npz: damaged [^\n]*; reinstall asbc[^\n]*$"):
            EncoderSource("dino", "sample").load()
    (packed / "cifar100_dino.npz").unlink()
    with pytest.raises(ValueError, match=r"cifar100_dino\.npz.*reinstall asbc"):
        EncoderSource("dino", "sample").load()
    text = (packed / "cifar100.json").read_text()
    (packed / "cifar100.json").write_text(text.replace("cifar100_byol", "cifar100_xyol"))
    with pytest.raises(ValueError, match=r"cifar100\.json: damaged"):
        EncoderSource("byol", "sample").load()


@pytest.mark.parametrize(
    "arguments",
    [
        {"encoder": "clip"},
        {"dataset": "cifar10"},
        {"split": "train"},
        {"encoder": "dino_vits16"},
        {"encoder": "minilm"},
    ],
)
def test_what_has_no_sample(packed, arguments):
    with pytest.raises(ValueError, match=r"^no sample of encoder=.* simclr, mocov2, byol, barlow, vicreg, dino on cif"):
        EncoderSource(**{"encoder": "simclr", "source": "sample", **arguments}).load()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.repeat(np.arange(100), 30)[:-1]}, "one entry per image"),
        (
            {"labels": np.repeat(np.arange(100), 30)[:-1], "rows": np.arange(2999)},
            "class 99 has 29 images, expected 30",
        ),
        ({"labels": np.r_[np.repeat(np.arange(100), 30)[:-1], 0]}, "class 0 has 31 images, expected 30"),
        ({"byol": np.full((3000, 4), 1e6)}, r"byol\.npy: expected 3000 finite vectors"),
        ({"byol": np.zeros((10, 4))}, r"byol\.npy: expected 3000 finite vectors, got shape \(10, 4\)"),
        ({"rows": np.array([object()])}, r"rows\.npy: not a readable \.npy file"),
    ],
)
def test_bad_input_of_the_script(vectors, tmp_path, change, message):
    for file in vectors.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for name, array in change.items():
        np.save(tmp_path / f"{name}.npy", array, allow_pickle=True)
    with pytest.raises(SystemExit, match=message) as stop:
        main([str(tmp_path), "--out", str(tmp_path / "out")])
    assert "\n" not in str(stop.value)


def test_the_files_in_the_package():
    card = source.DATA / source.CIFAR100_CARD
    if not card.exists():
        pytest.skip("no sample of CIFAR-100 is packed yet")
    encoders = read_json(card)["encoders"]
    assert sum((source.DATA / entry["file"]).stat().st_size for entry in encoders.values()) <= MAX_BYTES
    for name in encoders:
        assert np.array_equal(np.bincount(EncoderSource(name, "sample").load().labels), np.full(100, 30))


def test_a_sweep_over_encoders_sets_what_they_share():
    """Before a sweep Hydra applies the settings to the default embedding, so that one needs the same keys."""
    words = [
        "embedding.source=sample",
        "embedding.dataset=cifar100",
        "embedding.cache=x",
        "embedding.trainer.devices=2",
    ]
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        for leaf in ("clinc100", "digits", *ENCODERS, "dino_vits16"):
            made = instantiate(compose("config", overrides=[f"embedding={leaf}", *words]).embedding)
            assert (made.source, made.dataset) == ("sample", "cifar100")


def test_the_sweep_of_the_paper(packed, tmp_path):
    """Within one process, since the sample is patched there."""
    words = ["-m", "experiment=loo,lp", "embedding=simclr,byol", "embedding.source=sample", "method=[knn]", "trials=1"]
    words += ["samples_per_class=[5]", "k_cand=8", f"out={tmp_path / 'out'}", "progress=false"]
    done = call("asbc.runs.command", words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"experiment={e} embedding={n}" in done.stdout for e in ("loo", "lp") for n in ("simclr", "byol"))


def test_checkpoints_are_those_of_the_card():
    folder = Path(__file__).parents[2] / "experiments" / "checkpoints"
    encoders = read_json(source.DATA / source.CIFAR100_CARD)["encoders"]
    known = {name: entry["checkpoint"] for name, entry in encoders.items() if "checkpoint" in entry}
    assert sorted(known) == sorted(path.name for path in folder.iterdir())
    for name, file in known.items():
        data = (folder / file["name"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["size"], file["sha256"])
        assert read_checkpoint(folder / name).image_size == (32, 32)
