"""Training runs as the command makes them: their folder, resuming, and what goes wrong."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import nn

from asbc.configs import conf_dir
from asbc.embeddings import read_checkpoint
from asbc.train import run as runs
from asbc.train.checkpoint import Checkpoints, latest_checkpoint, read_curve
from asbc.train.methods import Method
from asbc.train.run import pretrain
from tests.commands import Process

from .small import ENCODERS, TINY, config, write_images

ROOT = Path(__file__).resolve().parents[2]


class Stopped(Exception):
    pass


def stop_at(monkeypatch, step):
    """A run that ends, as a crash would end it, in the middle of a step."""
    plain = Method.training_step

    def training_step(self, batch, batch_idx):
        if self.global_step == step:
            raise Stopped
        return plain(self, batch, batch_idx)

    monkeypatch.setattr(Method, "training_step", training_step)


def curve(folder, metric="loss"):
    return [(step, value) for step, name, value in read_curve(folder / "metrics.csv") if name == metric]


@pytest.mark.parametrize("name", ENCODERS)
def test_stopped_in_mid_epoch_it_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch, name):
    small = {"mocov2": ["encoder.method.queue=16"], "dino": ["encoder.method.prototypes=12"]}.get(name, [])
    small += ["encoder.method.hidden=8", "encoder.method.out=4", "encoder.recipe.warmup_epochs=0.5"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    pretrain(config(whole, *small, encoder=name))
    with monkeypatch.context() as patch:
        stop_at(patch, 8)  # of 10 steps; the last checkpoint is of step 6, the first of the second epoch
        with pytest.raises(Stopped):
            pretrain(config(parts, *small, encoder=name))
    checkpoint = latest_checkpoint(parts / "run")
    assert checkpoint.name == f"{name}-arrays-ep=1.ckpt"
    assert torch.load(checkpoint, weights_only=True)["global_step"] == 6
    pretrain(config(parts, *small, encoder=name))
    assert [step for step, _ in curve(whole / "run")] == list(range(10))
    assert curve(parts / "run") == curve(whole / "run")  # to the last bit
    ends = [torch.load(latest_checkpoint(folder / "run"), weights_only=True) for folder in (whole, parts)]
    assert [end["global_step"] for end in ends] == [10, 10]
    a, b = (end["state_dict"] for end in ends)
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
    assert [file.name for file in (parts / "run").glob("*.ckpt")] == [f"{name}-arrays-ep=2.ckpt"]


MORTAL = """
import os, signal
from pathlib import Path
from asbc.train import SimCLR

class Mortal(SimCLR):
    def loss(self, views):
        if self.global_step == 4 and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(views)
"""


def test_killed_in_mid_epoch(tmp_path):
    config(tmp_path)  # writes the images
    (tmp_path / "mortal.py").write_text(MORTAL)
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "mortal.yaml").write_text(
        "defaults: [simclr, _self_]\nname: mortal\nmethod:\n  _target_: mortal.Mortal\n"
    )
    words = ["--config-dir", ".", "encoder=mortal", "data=arrays", "data.path=train.npz", "probe.enabled=false", *TINY]
    words += ["out=run", "encoder.method.hidden=8", "encoder.method.out=4"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    start = {"cwd": tmp_path, "env": environment}
    killed = Process("asbc.train.command", words, **start)
    assert killed.wait() == -signal.SIGKILL, killed.read()
    assert (tmp_path / "died").exists() and torch.load(latest_checkpoint(tmp_path / "run"))["global_step"] == 3
    again = Process("asbc.train.command", words, **start)
    output, said = again.communicate()
    assert again.returncode == 0, said
    assert "resuming from run/mortal-arrays-ep=0.ckpt, step 3" in output
    assert "epoch 2 of 2: loss" in output and "10 steps in total" in output
    assert [step for step, _ in curve(tmp_path / "run")] == list(range(10))
    pretrain(config(tmp_path, "encoder.method.hidden=8", "encoder.method.out=4", f"out={tmp_path}/whole"))
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")


TWO = """
from pathlib import Path

import torch
from asbc.train import MoCoV2

class Witness(MoCoV2):
    def on_train_end(self):
        state = {key: value for key, value in self.state_dict().items() if value.is_floating_point()}
        torch.save(state, f"weights-{self.global_rank}.pt")

    def loss(self, views):
        with Path(f"seen-{self.global_rank}.txt").open("a") as file:
            print(views[0].sum().item(), file=file)
        return super().loss(views)
"""


def test_two_devices_train_one_network(tmp_path):
    """Each sees images of its own, and after the last step both hold the same weights."""
    config(tmp_path)  # writes the images
    (tmp_path / "two.py").write_text(TWO)
    words = ["encoder=mocov2", "encoder.method._target_=two.Witness", "data=arrays", "data.path=train.npz", *TINY]
    words += ["data.test_path=test.npz", "probe.every_n_epochs=1", "probe.images=20", "out=run"]
    words += ["encoder.method.hidden=8", "encoder.method.out=4", "encoder.method.queue=16", "encoder.recipe.lr=0.1"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    run = Process(
        "asbc.train.command",
        # Forked, as the processes of a test are; `strategy=auto` starts the command anew for each device.
        [*words, "trainer.devices=2", "trainer.strategy=ddp_fork"],
        cwd=tmp_path,
        env=environment,
    )
    output, said = run.communicate()
    assert run.returncode == 0, said
    assert "epoch 2 of 2: loss" in output and "4 steps in total" in output  # of 2 x 8 images
    assert [step for step, _ in curve(tmp_path / "run")] == list(range(4))
    assert [step for step, _ in curve(tmp_path / "run", "probe/loo")] == [1, 3]
    first, second = ((tmp_path / f"seen-{rank}.txt").read_text().split() for rank in (0, 1))
    assert len(first) == len(second) == 4 and not set(first) & set(second)
    first, second = (torch.load(tmp_path / f"weights-{rank}.pt", weights_only=True) for rank in (0, 1))
    learned = [key for key in first if "running" not in key]
    assert learned and all(torch.equal(first[key], second[key]) for key in learned)


# ------------------------------------------------------------------------------------------ what a run leaves


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with probes, of a network of the usual width."""
    folder = tmp_path_factory.mktemp("trained")
    usual = ["encoder.backbone.name=resnet18", "encoder.backbone.width=64", "encoder.epochs=1", "data.name=cifar10"]
    pretrain(config(folder, *usual, "probe.every_n_epochs=1", "probe.images=20", probe=True))
    return folder / "run"


def test_solo_learn_could_read_it(trained):
    """solo-learn takes the name of the backbone from args.json, and its weights from `backbone.`."""
    args = json.loads((trained / "args.json").read_text())
    assert args["method"] == "simclr" and args["data"]["dataset"] == "cifar10"
    model = getattr(torchvision.models, args["backbone"]["name"])(**args["backbone"]["kwargs"])
    model.fc, model.maxpool = nn.Identity(), nn.Identity()
    model.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=2, bias=False)
    (file,) = trained.glob("*.ckpt")
    state = torch.load(file, weights_only=True)["state_dict"]
    model.load_state_dict({key[9:]: value for key, value in state.items() if key.startswith("backbone.")})
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    ours = read_checkpoint(trained)
    with torch.inference_mode():
        np.testing.assert_allclose(ours.model(images), model.eval()(images), atol=1e-5)
    assert ours.image_size == (16, 16) and ours.architecture == "resnet18, CIFAR stem"


@pytest.mark.parametrize("encoder", ENCODERS)
def test_args_have_what_solo_learns_methods_ask_for(tmp_path, encoder):
    """Without these its main_knn.py and main_umap.py stop, which create the method of args.json."""
    args = runs.solo_args(config(tmp_path, "encoder.epochs=3", encoder=encoder))
    assert args["method"] in ("simclr", "mocov2plus", "byol", "barlow_twins", "vicreg", "dino")
    assert {"momentum", "max_epochs"} <= set(args) and args["scheduler"]["name"] == "warmup_cosine"
    assert {"dataset", "num_classes", "num_large_crops", "num_small_crops"} <= set(args["data"])
    assert {"name", "batch_size", "lr", "weight_decay", "classifier_lr"} <= set(args["optimizer"])
    needed = {"mocov2": {"temperature", "queue_size"}, "simclr": {"temperature"}, "byol": {"pred_hidden_dim"}}
    needed["dino"] = {"num_prototypes"}
    assert {"proj_hidden_dim", "proj_output_dim", *needed.get(encoder, ())} <= set(args["method_kwargs"])


def test_the_next_command_and_the_accuracies_are_shown(tmp_path, caplog):
    caplog.set_level("INFO")
    few = ["encoder.epochs=1", "probe.every_n_epochs=1", "probe.images=20"]
    pretrain(config(tmp_path, *few, probe=True))
    values = dict(curve(tmp_path / "run", "knn20"))
    wanted = f"knn20 accuracy on held-out images: {values[0]:.3f} before training, {values[5]:.3f} after"
    assert wanted in caplog.text
    (line,) = [line for line in caplog.messages if line.startswith("next: asbc ")]
    words = shlex.split(line.removeprefix("next: asbc "))
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        source = instantiate(compose("config", overrides=words).embedding)
    source.cache, source.trainer = str(tmp_path / "cache"), {"accelerator": "cpu", "enable_progress_bar": False}
    assert source.load().vectors.shape == (20, 16), "the held-out images, by the encoder that was trained"


def test_probes_say_how_good_the_features_are(trained):
    names = {name for _, name, _ in read_curve(trained / "metrics.csv")}
    assert names == {"loss", "knn20", "probe/loo", "probe/dimension", "probe/effective_rank"}
    assert [step for step, _ in curve(trained, "knn20")] == [0, 5]
    assert all(0 <= value <= 1 for _, value in curve(trained, "knn20"))


def test_a_narrow_network_is_read_as_it_was_trained(tmp_path):
    pretrain(config(tmp_path, "encoder.backbone.padding=1", "encoder.epochs=1"))
    encoder = read_checkpoint(tmp_path / "run")
    assert encoder.architecture == "resnet10, CIFAR stem, width 2, padding 1"
    state = torch.load(latest_checkpoint(tmp_path / "run"), weights_only=True)["state_dict"]
    assert all(torch.equal(state[f"backbone.{key}"], value) for key, value in encoder.model.state_dict().items())
    assert encoder.model.conv1.padding == (1, 1) and encoder.model(torch.zeros(1, 3, 16, 16)).shape == (1, 16)


def test_a_finished_run_is_not_done_again(tmp_path, monkeypatch, caplog):
    pretrain(config(tmp_path, "encoder.epochs=1"))
    before = (tmp_path / "run" / "metrics.csv").read_bytes(), latest_checkpoint(tmp_path / "run").stat().st_mtime_ns
    stop_at(monkeypatch, 5)
    pretrain(config(tmp_path, "encoder.epochs=1"))
    assert before == (
        (tmp_path / "run" / "metrics.csv").read_bytes(),
        latest_checkpoint(tmp_path / "run").stat().st_mtime_ns,
    )


# ------------------------------------------------------------------------------------------ what goes wrong


@pytest.mark.parametrize(
    ("encoder", "words", "said"),
    [
        ("simclr", ["encoder.batch_size=1"], r"encoder\.batch_size=1: the loss of SimCLR needs at least 2"),
        (
            "barlow",
            ["encoder.batch_size=1"],
            r"the loss of BarlowTwins needs at least 2",
        ),
        ("simclr", ["encoder.batch_size=0"], r"encoder\.batch_size must be a whole number of at least 1; got 0"),
        ("short/dino", ["encoder.batch_size=1"], r"the loss of DINO needs at least 2"),
        ("simclr", ["data.path=???"], r"data\.path: needed for data=arrays, got none"),
        ("simclr", ["encoder.batch_size=64"], r"a step needs 64 images, and there are 40"),
        ("simclr", ["encoder.backbone.name=resnet12"], r"encoder\.backbone\.name=resnet12: expected one of resnet10,"),
        ("simclr", ["encoder.backbone.width=0"], "width must be an integer between 1 and 4096"),
        ("simclr", ["data.path=/nowhere.npz"], r"/nowhere\.npz: no such file"),
    ],
)
def test_bad_settings_are_told_before_anything_is_written(tmp_path, encoder, words, said):
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        pretrain(config(tmp_path, *words, encoder=encoder))
    assert not (tmp_path / "run").exists()


def test_two_runs_do_not_mix(tmp_path):
    pretrain(config(tmp_path, "encoder.epochs=1"))
    with pytest.raises(ValueError, match=r"other settings \(.*encoder\.recipe\.lr=0\.4 there, .*lr=0\.1 now"):
        pretrain(config(tmp_path, "encoder.epochs=1", "encoder.recipe.lr=0.1"))
    (tmp_path / "run" / "args.json").unlink()
    with pytest.raises(ValueError, match=r"holds simclr-arrays-ep=1\.ckpt and no args\.json"):
        pretrain(config(tmp_path, "encoder.epochs=1"))


def test_a_damaged_checkpoint_is_not_used(tmp_path):
    pretrain(config(tmp_path, "encoder.epochs=1"))
    file = latest_checkpoint(tmp_path / "run")
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"ep=1\.ckpt: damaged, or not a file of weights .*remove .* to train again"):
        pretrain(config(tmp_path, "encoder.epochs=1"))


def test_no_space_left_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    write, calls = Checkpoints.save, []

    def save(self, trainer, epochs):
        calls.append(trainer.global_step)
        if len(calls) == 2:

            def full(path, **kwargs):
                Path(path).write_bytes(b"half")
                raise OSError(errno.ENOSPC, "No space left on device")

            trainer.save_checkpoint = full
        write(self, trainer, epochs)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", save)
        with pytest.raises(OSError, match="No space left"):
            pretrain(config(tmp_path))
    assert calls == [3, 5]
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["args.json", "metrics.csv", "simclr-arrays-ep=0.ckpt"]  # nothing half-written
    pretrain(config(tmp_path))
    assert [step for step, _ in curve(tmp_path / "run")] == list(range(10))


def test_a_loss_that_is_no_number_says_what_to_do(tmp_path, monkeypatch):
    from asbc.train import SimCLR

    monkeypatch.setattr(SimCLR, "loss", lambda self, views: torch.tensor(float("nan"), requires_grad=True))
    with pytest.raises(ValueError, match=r"the loss is nan at step 0: try a lower encoder\.recipe\.lr"):
        pretrain(config(tmp_path))


def test_images_without_labels_need_no_probe(tmp_path):
    write_images(tmp_path / "train.npz")
    with np.load(tmp_path / "train.npz") as arrays:
        images = arrays["images"]
    np.savez(tmp_path / "train.npz", images=images)
    with pytest.raises(ValueError, match=r"without labels: a probe needs them; set probe\.enabled=false"):
        pretrain(config(tmp_path, probe=True))
    pretrain(config(tmp_path))
    assert runs.solo_args(config(tmp_path))["asbc"]["image_size"] == 16


def test_curves_go_to_wandb_too(tmp_path, monkeypatch):
    """Offline where there is no key; a second attempt goes on with the same run."""
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    wandb.teardown()  # it reads its environment once per process, and other tests may have had it do so
    words = ["logger=[csv,wandb]", "encoder.epochs=1"]
    with monkeypatch.context() as patch:
        stop_at(patch, 4)
        with pytest.raises(Stopped):
            pretrain(config(tmp_path, *words))
    name = (tmp_path / "run" / "wandb.txt").read_text().strip()
    pretrain(config(tmp_path, *words))
    assert wandb.run is None, "ended, so that the next one is another"
    assert (tmp_path / "run" / "wandb.txt").read_text().strip() == name
    assert len(list((tmp_path / "run" / "wandb").glob(f"offline-run-*-{name}/run-{name}.wandb"))) >= 1
    assert [step for step, _ in curve(tmp_path / "run")] == list(range(5))


def test_a_graph_leaves_the_threads_of_torch_as_they_are():
    code = (
        "import torch; torch.set_num_threads(1); torch.get_num_threads()  # starts OpenMP\n"
        "import asbc, numpy; asbc.GraphBuilder().fit(numpy.random.default_rng(0).normal(size=(100, 8)))\n"
        "print(torch.get_num_threads())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "1"
