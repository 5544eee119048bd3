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
    shared.most = 120  # 60 nodes, for what needs the seed and for what does not
    first, again = levels.draw(cfg, embeddings, unit), levels.draw(cfg, embeddings, unit)
    assert first.neighbors is again.neighbors
    # Rows that one of several methods carries for all are told in every experiment.
    task, method = Regret(scales=[0.5]), Method("gaussian", asbc.SpectralBandwidth())
    assert len(list(task(first, method))) == len(list(task(again, method))) > len(list(task(again, method)))
    other = OmegaConf.merge(cfg, {"dimension": {"estimator": "two_nn"}})
    assert levels.draw(other, embeddings, unit).neighbors is not first.neighbors
    assert levels.draw(cfg, embeddings, unit).neighbors is not first.neighbors  # it had to go


def test_trials_on_the_same_nodes_share_what_needs_no_seed(monkeypatch, tmp_path):
    shared = levels.SharedSamples()
    monkeypatch.setattr(levels, "shared_samples", shared)
    shared.most = 10_000
    cfg = config(tmp_path, "experiment=regimes", "embedding=digits")
    embeddings = instantiate(cfg.embedding).load()
    few = [levels.draw(cfg, embeddings, levels.Unit(6, trial)) for trial in (0, 1)]
    assert few[0].common is not few[1].common  # other nodes
    whole = [levels.draw(cfg, embeddings, levels.Unit(levels.ALL, trial)) for trial in (0, 1)]
    assert whole[0].common is whole[1].common and whole[0].own is not whole[1].own
    assert whole[0].neighbors is whole[1].neighbors
    assert (whole[0].dimension() != whole[1].dimension()).any()
    other = OmegaConf.merge(cfg, {"k_cand": 12})
    assert levels.draw(other, embeddings, levels.Unit(levels.ALL, 0)).common is not whole[0].common
