"""Real runs of every experiment, small: six bent clouds, two trials."""

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from asbc.configs import conf_dir
from asbc.report.evidence import read_evidence
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.run import run
from tests.conftest import curved_clouds

SWEPT = {"gamma": (0.5, 1, 1.5), "k_cand": (15, 20), "n_grid": (12, 24)}


def run_small(experiment, vectors, out, *overrides):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = compose(
            "config",
            overrides=[
                f"experiment={experiment}",
                "embedding=files",
                f"embedding.path={vectors}",
                "embedding.name=clouds",
                "samples_per_class=[10]",
                "trials=2",
                "k_cand=15",
                "logger=none",
                "progress=false",
                f"out={out}",
                *overrides,
            ],
        )
    return run(cfg)


def small_overrides(experiment):
    """What makes an experiment small enough for a test, a list for each of its jobs."""
    axis = EXPERIMENTS[experiment].axis
    if axis:
        return [[f"{axis.key}={value}"] for value in SWEPT[experiment]]
    return [
        {
            "loo": ["samples_per_class=[5,10]"],
            "lp": ["evaluate.lp.labels=[1,5]"],
            "ablation": ["evaluate.lp.labels=[1,5]"],
            "selectors": ["evaluate.lp.labels=[1,5]"],
            "regret": ["evaluate.regret.scales=[0.5,1,2]"],
            "regimes": ["evaluate.regimes.n_scales=9"],
        }.get(experiment, [])
    ]


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    X, y = curved_clouds()
    path = tmp_path_factory.mktemp("vectors") / "clouds.npz"
    np.savez(path, embeddings=X.astype(np.float32), labels=y)
    return path


@pytest.fixture(scope="session")
def outputs(tmp_path_factory, vectors):
    """A results folder with every experiment in it. Not to be changed: copy it."""
    out = tmp_path_factory.mktemp("outputs")
    for experiment in (name for name, record in EXPERIMENTS.items() if record.suggested):
        for overrides in small_overrides(experiment):
            run_small(experiment, vectors, out, *overrides)
    return out


@pytest.fixture(scope="session")
def subject(outputs):
    (subject,) = read_evidence([outputs]).subjects
    return subject
