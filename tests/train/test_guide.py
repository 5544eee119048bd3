"""docs/encoders.md on training: a method of one's own is a module and a YAML file, and the commands are real."""

import json
import os
import re
import shlex
from pathlib import Path

from hydra import compose, initialize_config_dir

from asbc.configs import conf_dir
from asbc.embeddings import read_checkpoint
from asbc.train.checkpoint import read_curve
from asbc.train.command import CONF
from tests.commands import Process

from .small import ENCODERS, TINY, write_images

ROOT = Path(__file__).resolve().parents[2]
PART = (ROOT / "docs" / "encoders.md").read_text().split("\n## Training\n")[1].split("\n## ")[0]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PART, re.S)


def test_a_method_of_ones_own(tmp_path):
    write_images(tmp_path / "images.npz")
    files = {re.match(r"# (\S+)\n", code)[1]: code for language, code in BLOCKS if language in ("python", "yaml")}
    assert set(files) == {"my_methods.py", "encoder/simsiam.yaml"}, "one module and one YAML file"
    (tmp_path / "encoder").mkdir()
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    (command,) = [code for _, code in BLOCKS if code.startswith("asbc-pretrain --config-dir")]
    words = shlex.split(command)[1:]
    run = Process(
        "asbc.train.command",
        [*words, *TINY, "encoder.epochs=1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"},
    )
    output, said = run.communicate()
    assert run.returncode == 0, said
    folder = tmp_path / "trained_models" / "simsiam" / "arrays"
    assert "epoch 1 of 1: loss" in output and str(folder.relative_to(tmp_path)) in output
    assert [step for step, name, _ in read_curve(folder / "metrics.csv") if name == "loss"] == list(range(5))
    assert read_checkpoint(folder).model.conv1.out_channels == 2
    assert json.loads((folder / "args.json").read_text())["method"] == "simsiam"


def test_the_commands_of_the_guide_name_settings_that_there_are():
    lines = [line for language, code in BLOCKS if language == "sh" for line in code.splitlines()]
    (line,) = [line for line in lines if line.startswith("asbc-pretrain ") and "--config-dir" not in line]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", overrides=shlex.split(line)[1:])
        assert config.encoder.name == "mocov2" and config.data.name == "cifar100"
        for name in ENCODERS:
            assert f"`{name}`" in PART or f"={name}`" in PART
            usual, short = (
                compose("config", overrides=[f"encoder={leaf}"]).encoder for leaf in (name, f"short/{name}")
            )
            assert (usual.epochs, usual.batch_size, usual.backbone.name) == (1000, 256, "resnet18")
            assert (short.epochs, short.batch_size, short.backbone.name, short.crop) == (3, 128, "resnet10", 24)
    (line,) = [line for line in lines if line.startswith("asbc ")]
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        compose("config", overrides=shlex.split(line)[1:])
