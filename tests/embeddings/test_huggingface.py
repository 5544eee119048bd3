"""Data sets in the hub's layouts, from folders on this machine."""

import numpy as np
import pytest
import torch
from PIL import Image

from asbc.embeddings import HuggingFace
from asbc.embeddings.download import DownloadError
from asbc.embeddings.store import entry_folders

from .small import tiny_encoder
from .test_command import source

datasets = pytest.importorskip("datasets", reason="pip install 'asbc[hf]'")
CPU = {"accelerator": "cpu", "enable_progress_bar": False}


@pytest.fixture
def pictures(rng):
    pixels = rng.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    rows = {"img": [Image.fromarray(p) for p in pixels], "kind": [0, 1, 2, 0, 1, 2], "note": list("abcdef")}
    made = datasets.Dataset.from_dict(rows).cast_column("kind", datasets.ClassLabel(names=["x", "y", "z"]))
    return made, pixels


def as_on_the_hub(rows, folder, split="test"):
    (folder / "data").mkdir(parents=True)
    rows.to_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
    return str(folder)


def as_saved(rows, folder):
    datasets.DatasetDict({"test": rows}).save_to_disk(str(folder))
    return str(folder)


@pytest.mark.parametrize("write", [as_on_the_hub, as_saved])
def test_images_through_an_encoder(pictures, write, tmp_path, cache):
    made, pixels = pictures
    encoder = tiny_encoder()
    loaded = HuggingFace("tiny", encoder, dataset=write(made, tmp_path / "pets"), trainer=CPU).load()
    images = torch.stack([encoder.transform(Image.fromarray(p)) for p in pixels])
    with torch.inference_mode():
        np.testing.assert_allclose(loaded.vectors, encoder.model(images).numpy(), atol=1e-5)
    assert list(loaded.labels) == [0, 1, 2, 0, 1, 2]
    assert (loaded.name, loaded.encoder) == ("pets", "tiny")
    again = HuggingFace("tiny", encoder, dataset=str(tmp_path / "pets"), trainer=CPU)
    assert again.load().fingerprint == loaded.fingerprint
    assert len(entry_folders()) == 1, "the same images are not embedded twice"
    files = sorted((tmp_path / "pets").rglob("*"))
    by_note = HuggingFace("tiny", encoder, dataset=str(tmp_path / "pets"), label="note", trainer=CPU).load()
    assert list(by_note.labels) == [0, 1, 2, 3, 4, 5]
    assert sorted((tmp_path / "pets").rglob("*")) == files, "nothing is written next to the user's images"


@pytest.mark.parametrize("feature", [lambda: datasets.Sequence(datasets.Value("float32")), None])
@pytest.mark.parametrize("write", [as_on_the_hub, as_saved])
def test_ready_vectors(rng, write, feature, tmp_path, cache):
    vectors = rng.standard_normal((5, 4)).astype(np.float32)
    made = datasets.Dataset.from_dict({"emb": vectors.tolist(), "label": list("aabbb"), "id": list(range(5))})
    if feature:
        made = made.cast_column("emb", feature())
    folder = write(made, tmp_path / "sentences")
    loaded = source("embedding=hf", f"embedding.dataset={folder}", "embedding.encoder=minilm").load()
    np.testing.assert_allclose(loaded.vectors, vectors, atol=1e-6)
    assert list(loaded.labels) == list("aabbb")
    assert (loaded.name, loaded.encoder) == ("sentences", "minilm")
    assert loaded.vectors.shape == (5, 4)


def test_what_can_be_wrong(pictures, rng, tmp_path, cache):
    made, _ = pictures
    folder = as_saved(
        made.add_column("fine", [0] * 6).cast_column("fine", datasets.ClassLabel(names=["q"])), tmp_path / "a"
    )
    for arguments, message in (
        ({}, "label=None: name one column of classes .*: kind, note, fine"),
        ({"split": "val"}, r"split='val': .* has test"),
        ({"column": "note"}, r"column=note: name one column .* images \(img\) or with vectors of floats \(none\)"),
        ({"label": "colour"}, "label=colour: name one column of classes .*: kind, note, fine"),
        ({"label": "kind", "source": "published"}, "has no encoder for images"),
    ):
        with pytest.raises(ValueError, match=message):
            HuggingFace(**{"encoder": "e", "source": tiny_encoder(), "dataset": folder, **arguments}).load()
    with pytest.raises(ValueError, match="dataset: no data set of the hub"):
        HuggingFace("e", "timm", dataset=None).load()
    ragged = datasets.Dataset.from_dict({"emb": [[1.0, 2.0], [3.0]]})
    with pytest.raises(ValueError, match=r"column emb: embeddings must have shape \(n, d\), got \(2,\)"):
        HuggingFace("e", dataset=as_saved(ragged, tmp_path / "ragged")).load()
    words = datasets.Dataset.from_dict({"text": ["a", "b"]})
    with pytest.raises(ValueError, match=r"column=None: name one column .* images \(none\) or with vectors"):
        HuggingFace("e", dataset=as_on_the_hub(words, tmp_path / "words")).load()
    with pytest.raises(ValueError, match="split='train'"):
        HuggingFace("e", dataset=str(tmp_path / "words"), split="train").load()


def test_without_a_network(monkeypatch, cache, pauses):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        DownloadError,
        match=r"(?s)dataset='some/where'.* not a folder.*(refused|no answer).*clinc100.*embedding\.dataset=folder",
    ):
        HuggingFace("e", dataset="some/where").load()
    assert not pauses
