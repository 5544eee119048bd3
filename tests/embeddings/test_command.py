import itertools
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from PIL import Image
from torch import nn

from asbc import GraphBuilder, normalize
from asbc.configs import conf_dir
from asbc.embeddings import EncoderSource, Files, command, read_checkpoint
from asbc.embeddings.source import published_file
from asbc.embeddings.store import Entry, cache_folder, entry_folders, read_entry
from asbc.learn.predict import loo_predict
from asbc.storage import write_json
from tests.commands import call, run
from tests.walks import walk

from .small import checkpoint_of, new_args, write_checkpoint

ROOT = Path(__file__).parents[2]
LEAVES = sorted(path.stem for path in (ROOT / "conf" / "embedding").glob("*.yaml"))


def source(*overrides):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return instantiate(compose("embed", overrides=list(overrides)).embedding)


def asbc_embed(*arguments, cwd, cache, **environment):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ASBC_CACHE": str(cache), **environment}
    return call("asbc.embeddings.command", arguments, cwd=cwd, env=env)


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_leaf_is_a_source(leaf):
    assert callable(source(f"embedding={leaf}").load)


@pytest.mark.parametrize("leaf", ["simclr", "mocov2", "byol", "barlow", "vicreg", "dino", "dino_vits16"])
def test_every_encoder_takes_every_source_in_one_override(leaf):
    for kind in ("sample", "published", "lightly", "checkpoint", "timm"):
        made = source(f"embedding={leaf}", f"embedding.source={kind}")
        assert isinstance(made, EncoderSource)
        assert (made.encoder, made.source, made.dataset, made.split) == (leaf, kind, "cifar100", "test")


def test_a_checkpoint_through_every_leaf_and_a_local_timm_file(resnet, cifar, cache, tmp_path):
    common = [f"embedding.root={cifar[0]}", "embedding.trainer.accelerator=cpu", "embedding.batch_size=32"]
    checkpoint = ["embedding.source=checkpoint", f"embedding.path={resnet[0]}"]
    by_simclr = source("embedding=simclr", *checkpoint, *common).load()
    by_byol = source("embedding=byol", *checkpoint, *common).load()
    assert by_simclr.fingerprint == by_byol.fingerprint
    assert (by_simclr.encoder, by_byol.encoder) == ("simclr", "byol")
    import timm

    torch.save(timm.create_model("vit_tiny_patch16_224").state_dict(), tmp_path / "tiny.pth")
    model = ["embedding.model=vit_tiny_patch16_224", f"embedding.path={tmp_path / 'tiny.pth'}"]
    by_timm = source("embedding=dino_vits16", *model, *common).load()
    assert by_timm.vectors.shape == (23, 192)
    with pytest.raises(ValueError, match="path: no checkpoint file or folder given"):
        source("embedding=simclr", "embedding.source=checkpoint").load()
    with pytest.raises(ValueError, match="source='web': expected sample, published, lightly, checkpoint, timm"):
        source("embedding=simclr", "embedding.source=web").load()


def test_every_missing_file_is_in_one_message(tmp_path):
    gone = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
    for words in (["embedding=mocov2", "embedding.source=lightly"], ["embedding=dino_vits16"]):
        done = asbc_embed(*words, cwd=tmp_path, cache=tmp_path, HF_HOME=str(tmp_path / "hf"), **gone)
        assert done.returncode == 1
        assert "on cifar100: 2 files are missing" in done.stderr
        assert "\nWithout a download: embedding.source=sample" in done.stderr
        assert done.stderr.count("put it at ") == 2
    name = "timm/vit_small_patch16_224.dino"
    assert f"hash: https://huggingface.co/{name}/blob/main/model.safetensors" in done.stderr
    assert f"put it at {tmp_path}/hub/{name}/model.safetensors" in done.stderr


def write_entry(cache, rng):
    entry = Entry("abcdef", cache)
    entry.write(np.arange(4), rng.standard_normal((4, 3)), None)
    manifest = {"encoder": "moco", "source": "checkpoint", "dataset": "birds", "split": "test", "precision": "32-true"}
    entry.publish(4, manifest)


def test_list(cache, capsys, rng):
    command.list_cache()
    assert capsys.readouterr().out.startswith(f"0 in {cache};")
    write_entry(cache, rng)
    (cache / "published" / "c0ffee" / "data" / "cifar100").mkdir(parents=True)
    (cache / "published" / "c0ffee" / "data" / "cifar100" / "embeddings_byol_train.npy").touch()
    command.list_cache()
    text = capsys.readouterr().out
    assert re.search(r"moco +checkpoint +birds +test +4 x 3 +32-true +abcdef", text)
    assert re.search(r"byol +published +cifar100 +train", text)
    assert str(cache) in text
    for name, content in {"torn": '{"for', "poor": '{"format": 1}', "list": "[]"}.items():
        (cache_folder() / "embeddings" / name).mkdir()
        (cache_folder() / "embeddings" / name / "manifest.json").write_text(content)
    (cache_folder() / "embeddings" / "other").mkdir()
    write_json(cache_folder() / "embeddings" / "other" / "manifest.json", {"format": 99})
    command.list_cache()
    text = capsys.readouterr().out
    assert all(re.search(rf"damaged +{name}", text) for name in ("torn", "poor", "other", "list"))
    assert re.search(r"moco +checkpoint", text)
    assert command.verify_cache() == 4 and "has format 99" in capsys.readouterr().out


def test_verify(tmp_path, rng, monkeypatch, capsys):
    monkeypatch.setenv("ASBC_CACHE", str(tmp_path))
    write_entry(tmp_path, rng)
    assert command.verify_cache() == 0 and "1 read, 0 damaged" in capsys.readouterr().out
    array = np.load(Entry("abcdef", tmp_path).folder / "vectors.npy", mmap_mode="r+")
    array[2, 1] += 1
    array.flush()
    label = published_file("data/cifar100/labels_test.npy", tmp_path).path
    label.parent.mkdir(parents=True)
    label.write_bytes(b"not it")
    done = asbc_embed("--verify", cwd=tmp_path, cache=tmp_path)
    assert done.returncode == 1
    assert re.search(r"vectors\.npy: damaged", done.stdout) and "not the published file" in done.stdout
    assert "2 read, 2 damaged" in done.stdout


def test_help_shows_the_commands_own_settings(tmp_path):
    text = asbc_embed("--help", cwd=tmp_path, cache=tmp_path).stdout
    assert all(re.search(rf"\b{leaf}\b", text) for leaf in LEAVES)
    assert "embedding.source" in text and "bandwidth" not in text and len(text.splitlines()) < 24
    assert all(len(line) <= 120 for line in text.splitlines())


def test_errors_of_the_command(tmp_path):
    run = asbc_embed("embedding=simclr", "embedding.source=checkpoint", cwd=tmp_path, cache=tmp_path / "cache")
    assert run.returncode == 1
    assert run.stderr.startswith("asbc-embed: path: no checkpoint file or folder given")
    run = asbc_embed("embedding=sinclair", cwd=tmp_path, cache=tmp_path / "cache")
    assert run.returncode == 1
    assert re.search(r"Could not find 'embedding/sinclair'.*simclr", run.stderr, re.DOTALL)
    assert list(tmp_path.iterdir()) == [], "no folder is left behind"
    sweep = ("-m", "embedding=simclr,byol", "embedding.source=checkpoint")
    run = asbc_embed(*sweep, cwd=tmp_path, cache=tmp_path / "cache")
    assert run.returncode == 1
    assert "#1 : embedding=byol" in run.stdout, "a failed job does not stop the next"
    assert run.stderr.count("path: no checkpoint file or folder given") == 2, "once each"
    assert "Traceback" not in run.stderr + run.stdout


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_cannot_be_read_is_one_line(workplace, workers):
    dogs = workplace / "photos" / "dogs"
    for number in range(20):  # so that it is not among the images of prepared_hash
        (dogs / f"more{number:02d}.png").write_bytes((dogs / "0.png").read_bytes())
    (dogs / "1.png").write_bytes(b"<html>")
    words = ["embedding=encoder", f"embedding.path={workplace / 'checkpoints' / 'nnclr'}", "embedding.batch_size=2"]
    words += ["embedding.dataset=imagefolder", f"embedding.root={workplace / 'photos'}"]
    done = asbc_embed(*words, f"embedding.num_workers={workers}", cwd=workplace, cache=workplace / "cache")
    assert done.returncode == 1
    assert re.fullmatch(r"asbc-embed: image 4 of the data set \(.*dogs/1\.png\) cannot be read: .*\n", done.stderr)


@pytest.mark.parametrize("source", ["checkpoint", "timm"])
def test_it_runs_through_few_modules(workplace, source):
    """The entry point in asbc/commands.py included."""
    import timm

    torch.manual_seed(0)
    hub = workplace / "cache" / "hub" / "some" / "net"
    hub.mkdir(parents=True)
    images = {"input_size": [3, 32, 32], "classifier": "fc", "num_classes": 10}
    (hub / "config.json").write_text(json.dumps({"architecture": "test_resnet", "pretrained_cfg": images}))
    torch.save(timm.create_model("test_resnet", num_classes=10).state_dict(), hub / "pytorch_model.bin")
    words = {
        "checkpoint": f"embedding.path={workplace / 'checkpoints' / 'nnclr'}",
        "timm": "embedding.model=hf-hub:some/net",
    }
    words = ["embedding=encoder", f"embedding.source={source}", words[source], "embedding.trainer.accelerator=cpu"]
    words += ["embedding.dataset=imagefolder", f"embedding.root={workplace / 'photos'}"]
    done = []

    def embed():
        done.append(asbc_embed(*words, cwd=workplace, cache=workplace / "cache"))

    embed()  # imports do not count
    shutil.rmtree(workplace / "cache" / "embeddings")
    found = walk(embed)
    assert [each.returncode for each in done] == [0, 0], done[-1].stderr
    assert len({*found, "commands", "extras"}) <= 9, sorted(found)


def test_a_sweep_without_a_network_says_it_once_each(tmp_path):
    """Through a proxy that is not there, as any program would be cut off."""
    proxy = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "ASBC_CACHE": str(tmp_path / "cache"),
        "COLUMNS": "80",
        **proxy,
    }
    words = ["-m", "embedding=simclr,dino", f"out={tmp_path}"]
    done = call("asbc.runs.command", words, cwd=tmp_path, env=environment)
    text = done.stdout + done.stderr
    assert done.returncode == 1
    assert "Traceback" not in text
    for encoder in ("simclr", "dino"):
        place = str(tmp_path / "cache" / "published")
        lines = [line for line in text.splitlines() if f"put it at {place}" in line and f"_{encoder}_" in line]
        assert len(lines) == 1, "whole, on a line of its own, and once"
    assert len(re.findall(r"\w+ on cifar100: 2 files are missing", text)) >= 2


# ---- the guide


def blocks():
    """Code in the guide: its files by name, and its commands."""
    text = (ROOT / "docs" / "encoders.md").read_text()
    files, commands = {}, []
    part = text.split("## Adding an encoder")[1].split("\n## ")[0]
    for language, code in re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL):
        if language == "sh":
            commands += code.strip().splitlines()
        else:
            files[re.match(r"# (\S+)\n", code)[1]] = code
    return files, commands


@pytest.fixture
def workplace(tmp_path, resnet, rng):
    """A folder with the things the guide takes for granted: images, a checkpoint, weights."""
    for label in ("cats", "dogs"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    write_checkpoint(tmp_path / "checkpoints" / "nnclr", checkpoint_of(resnet[1]), new_args(method="nnclr"))
    torch.manual_seed(0)
    torch.save(nn.Sequential(nn.Conv2d(3, 32, 3, stride=2)).state_dict(), tmp_path / "small_net.pt")
    return tmp_path


def as_typed(line, folder):
    """Run a line of the guide as a shell would: variables before the command are for it alone."""
    words = shlex.split(line, comments=True)
    given = list(itertools.takewhile(lambda word: re.match(r"[A-Z]+=", word), words))
    name, *arguments = words[len(given) :]
    module = {"asbc": "asbc.runs.command", "asbc-embed": "asbc.embeddings.command"}[name]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env |= {"ASBC_CACHE": str(folder / "cache"), **dict(word.split("=", 1) for word in given)}
    done = run(module, arguments, cwd=folder, env=env)
    return done.stdout + done.stderr, done.returncode


def test_the_guide_does_what_it_says(workplace, resnet):
    files, commands = blocks()
    assert set(files) == {"embedding/nnclr.yaml", "my_encoders.py", "embedding/small_net.yaml"}
    for name, content in files.items():
        (workplace / name).parent.mkdir(exist_ok=True)
        (workplace / name).write_text(content)
    assert len([line for line in commands if "asbc" in line.split("#")[0]]) >= 3
    for line in commands[:3]:
        small = " samples_per_class=[3] k_cand=4 trials=1 method=[knn]" if " asbc " in f" {line} " else ""
        said, code = as_typed(line + small, workplace)
        assert code == 0, said
    stored = {entry.encoder: entry for entry in map(read_entry, entry_folders(workplace / "cache"))}
    assert stored["nnclr"].vectors.shape == (6, 512)
    assert stored["small_net"].vectors.shape == (6, 32 * 4)
    assert list(stored["small_net"].labels) == [0, 0, 0, 1, 1, 1]
    encoder = read_checkpoint(resnet[0])
    image = encoder.transform(Image.open(workplace / "photos" / "dogs" / "0.png"))[None]
    with torch.inference_mode():
        np.testing.assert_allclose(stored["nnclr"].vectors[3], encoder.model(image)[0].numpy(), atol=1e-5)


def test_the_guide_names_every_leaf():
    text = (ROOT / "docs" / "encoders.md").read_text()
    assert all(f"`{leaf}`" in text for leaf in LEAVES)


# ---- from images to a figure


def test_from_images_through_a_checkpoint_to_leave_one_out(resnet, cifar, cache):
    loaded = source(
        "embedding=simclr",
        "embedding.source=checkpoint",
        f"embedding.path={resnet[0]}",
        f"embedding.root={cifar[0]}",
        "embedding.trainer.accelerator=cpu",
    ).load()
    builder = GraphBuilder(k_cand=12).fit(normalize(loaded.vectors))
    indices, weights = builder.neighbors_.indices, builder.weights_
    right = loo_predict(indices, weights, loaded.labels) == loaded.labels
    assert right.mean() >= 0.9, "the two classes differ in brightness, which any network sees"
    shuffled = np.random.default_rng(0).permutation(loaded.labels)
    assert (loo_predict(indices, weights, shuffled) == shuffled).mean() < 0.8
    entry = Files(str(entry_folders()[0])).load()
    assert entry.fingerprint == loaded.fingerprint
