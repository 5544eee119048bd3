"""Every leaf of the real conf/ composes and can be instantiated."""

import importlib
import importlib.util
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import MissingConfigException
from hydra.utils import instantiate
from omegaconf import OmegaConf

import asbc
from asbc.configs import composed_methods, conf_dir
from asbc.evaluate.sample import Method
from asbc.evaluate.tasks import Task
from asbc.runs.run import settings_of
from tests.commands import run

pytestmark = pytest.mark.slow
CONF = conf_dir()
TRAINING = Path(asbc.__file__).parent / "train" / "conf"  # of asbc-pretrain
GROUPS = sorted(
    p.name for p in CONF.iterdir() if p.is_dir() and p.name not in ("hydra", "experiment", "debug", "hparams_search")
)
LISTED = {"method": "methods", "evaluate": "evaluate", "logger": "logger"}  # several leaves at once


def leaves(group):
    files = [p.stem for p in (CONF / group).glob("*.yaml")]
    return sorted(files + (composed_methods() if group == "method" else []))


def load(*overrides, hydra=False):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", overrides=list(overrides), return_hydra_config=hydra)


@pytest.mark.parametrize(("group", "leaf"), [(g, leaf) for g in GROUPS if g not in LISTED for leaf in leaves(g)])
def test_every_single_leaf(group, leaf):
    cfg = load(f"{group}={leaf}")
    node = cfg[group]
    if "_target_" in node:
        assert instantiate(node) is not None
    else:
        assert group == "graph" and set(node) == {"k_min", "symmetrize"}
    settings_of(cfg)


@pytest.mark.parametrize(("group", "leaf"), [(g, leaf) for g in LISTED for leaf in leaves(g)])
def test_every_listed_leaf_alone_and_beside_others(group, leaf):
    node = load(f"{group}={leaf}").get(LISTED[group])
    if leaf == "none":
        assert not node
        return
    assert list(node) == [leaf]
    assert isinstance(instantiate(node[leaf]), {"method": Method, "evaluate": Task, "logger": object}[group])
    first = leaves(group)[0]
    if leaf != first:
        assert set(load(f"{group}=[{first},{leaf}]")[LISTED[group]]) == {first, leaf}


@pytest.mark.parametrize("name", leaves("experiment"))
def test_every_experiment(name):
    cfg = load(f"experiment={name}", hydra=True)
    assert cfg.name == name
    for node in cfg.methods.values():
        instantiate(node)
    for node in cfg.evaluate.values():
        task = instantiate(node)
        for samples in cfg.samples_per_class:
            task.check(np.full(100, samples))
    for key, values in (cfg.hydra.sweeper.params or {}).items():
        assert str(cfg.hydra.mode).endswith("MULTIRUN")
        for value in str(values).split(","):
            assert OmegaConf.select(load(f"experiment={name}", f"{key}={value}"), key) is not None
    if "stages" in cfg:
        assert set(cfg.stages) == set(leaves("experiment")) - {name, "choosing", "noise"}  # these two are our own


def test_experiment_values_win_over_the_defaults_and_the_command_line_over_both():
    assert load("experiment=lp").samples_per_class == [30]
    assert load("experiment=lp", "samples_per_class=[25]").samples_per_class == [25]
    assert list(load("experiment=loo", "method=[knn]").methods) == ["knn"]
    assert load("experiment=lp", "embedding=files").samples_per_class == "auto", "the user's own data tell"
    assert load("experiment=lp", "embedding=files", "samples_per_class=all").samples_per_class == "all"


def test_bandwidth_overrides_reach_the_methods_that_use_it():
    cfg = load("bandwidth.gamma=0.5", "method=[knn_sigma,nnk_sigma,nnk_fixed]")
    assert instantiate(cfg.methods.nnk_sigma).bandwidth.gamma == 0.5
    assert instantiate(cfg.methods.knn_sigma).bandwidth.gamma == 0.5
    assert type(instantiate(cfg.methods.nnk_fixed).bandwidth).__name__ == "Fixed"
    cfg = load("bandwidth=perplexity", "method=[nnk_sigma]")
    assert type(instantiate(cfg.methods.nnk_sigma).bandwidth).__name__ == "Perplexity"


@pytest.mark.parametrize("group", [*GROUPS, "experiment"])
def test_an_unknown_leaf_is_refused_with_the_valid_ones(group):
    with pytest.raises(MissingConfigException) as caught:
        load(f"{group}=nonsense")
    for leaf in leaves(group):
        assert leaf in str(caught.value)


def test_launchers():
    assert load("hydra/launcher=joblib", hydra=True).hydra.launcher.n_jobs == -1
    if importlib.util.find_spec("hydra_plugins.hydra_submitit_launcher"):
        launcher = load("hydra/launcher=slurm", hydra=True).hydra.launcher
        assert launcher.cpus_per_task == 8 and "SlurmLauncher" in launcher._target_


def targets():
    """Every `_target_` of the configs, with the file that has it."""
    found = [
        (str(path.relative_to(top)), target)
        for top in (CONF, TRAINING)
        for path in sorted(top.rglob("*.yaml"))
        for target in re.findall(r"_target_:\s*(\S+)", path.read_text())
    ]
    assert len(found) > 50
    return found


@pytest.mark.parametrize(("file", "target"), targets())
def test_every_target_is_a_public_name(file, target):
    """A config names a class as a user would import it, so that it works on when a module moves."""
    package, _, name = target.rpartition(".")
    if package.startswith(("lightly", "hydra_plugins")):  # other libraries, and plugins that Hydra finds
        assert hasattr(importlib.import_module(package), name)
        return
    assert package in ("asbc", "asbc.evaluate", "asbc.embeddings", "asbc.runs", "asbc.train")
    assert name in importlib.import_module(package).__all__


def test_k_cand_is_what_the_search_is_asked_for():
    assert load("k_cand=17").neighbors.k == 17
    for leaf in leaves("neighbors"):
        neighbors = load(f"neighbors={leaf}", "k_cand=9").neighbors
        assert neighbors.k == 9 and neighbors.metric == "cosine"


def test_help_names_the_metric_and_the_experiments():
    done = run("asbc.runs.command", ["--help"])
    assert done.returncode == 0, done.stderr
    assert "neighbors.metric=euclidean (the default is cosine)" in done.stdout
    for name in leaves("experiment"):
        assert name in done.stdout
    lines = [line for text in done.stdout.splitlines() for line in textwrap.wrap(text, 80) or [""]]
    assert len(lines) <= 36, "it fits a screen"
    lists = tuple(f"{group.name}:" for group in CONF.iterdir())
    assert all(len(text) <= 80 for text in done.stdout.splitlines() if not text.startswith(lists)), "a word on its own"
    assert done.stdout.count("\n  asbc ") == 5
    assert "pretrain" not in done.stdout, "the groups of another command"
