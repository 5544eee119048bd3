from hydra.utils import instantiate
from omegaconf import OmegaConf

import asbc
from asbc.evaluate import Method, Regret
from asbc.runs import levels
from tests.runs.test_experiment import config


def test_experiments_of_one_process_share_what_was_worked_out(monkeypatch, tmp_path):
    shared = levels.SharedSamples()
    monkeypatch.setattr(levels, "shared_samples", shared)
    cfg = config(tmp_path, "experiment=regret")
    embeddings = instantiate(cfg.embedding).load()
    unit = levels.Unit(6, 0)
    assert levels.draw(cfg, embeddings, unit).neighbors is not levels.draw(cfg, embeddings, unit).neighbors
    shared.most = 60
    first, again = levels.draw(cfg, embeddings, unit), levels.draw(cfg, embeddings, unit)
    assert first.neighbors is again.neighbors
    # Rows that one of several methods carries for all are told in every experiment.
    task, method = Regret(scales=[0.5]), Method("gaussian", asbc.SpectralBandwidth())
    assert len(list(task(first, method))) == len(list(task(again, method))) > len(list(task(again, method)))
    other = OmegaConf.merge(cfg, {"dimension": {"estimator": "two_nn"}})
    assert levels.draw(other, embeddings, unit).neighbors is not first.neighbors
    assert levels.draw(cfg, embeddings, unit).neighbors is not first.neighbors  # it had to go: 60 nodes are kept
