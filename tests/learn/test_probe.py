"""The probe: its figures are those of the features, training is not disturbed, and processes share the work."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import asbc
from asbc.learn import GraphProbe
from asbc.learn.describe import global_rank
from tests.commands import run
from tests.learn.small import Small, blobs, linear_features, loader, trainer


def expected(model):
    X, y = blobs().tensors
    with torch.no_grad():
        features = model.backbone.eval()(X).numpy()
    builder = asbc.GraphBuilder(metric="cosine", k_cand=30).fit(features)
    return {
        "probe/loo": asbc.NeighborVote(asbc.GraphBuilder(metric="cosine", k_cand=30))
        .fit(features, y.numpy())
        .loo_score_,
        "probe/dimension": float(np.median(builder.dimension_)),
        "probe/effective_rank": global_rank(features),
    }


def test_figures_are_those_of_the_features_and_come_every_few_epochs():
    calls = []

    class Counted(GraphProbe):
        def measure(self, trainer, module):
            calls.append(trainer.current_epoch)
            return super().measure(trainer, module)

    torch.manual_seed(0)
    model = Small()
    run = trainer([Counted(loader(shuffle=True), every_n_epochs=2)], max_epochs=4)
    run.fit(model, loader())
    assert calls == [1, 3]
    for name, value in expected(model).items():
        assert float(run.callback_metrics[name]) == pytest.approx(value, rel=1e-5)
    assert expected(model)["probe/loo"] > 0.9


def test_training_is_as_it_would_be_without_the_probe():
    def train(callbacks):
        torch.manual_seed(3)
        model = Small()
        model.configure_optimizers = lambda: torch.optim.SGD(model.parameters(), lr=0.1)
        trainer(callbacks, max_epochs=3).fit(model, loader(shuffle=True))
        return model

    with_probe, without = train([GraphProbe(loader(shuffle=True), every_n_epochs=1)]), train([])
    assert set(with_probe.seen_modes) == set(without.seen_modes)
    for name, value in without.state_dict().items():
        assert torch.equal(value, with_probe.state_dict()[name]), name
    assert with_probe.backbone.training and not with_probe.frozen.training
    assert all(p.requires_grad for p in with_probe.parameters())


def test_a_function_of_ones_own_and_an_iterable_of_batches():
    model = Small()
    batches = [{"x": x, "y": y} for x, y in loader()]
    seen = []

    def embed(module, batch):
        seen.append(torch.is_grad_enabled())
        return module.backbone(batch["x"]), batch["y"]

    run = trainer([GraphProbe(batches, every_n_epochs=1, embed=embed, name="mine")], max_epochs=1)
    run.fit(model, loader())
    assert seen == [False] * 4
    for name, value in expected(model).items():
        assert float(run.callback_metrics[name.replace("probe", "mine")]) == pytest.approx(value, rel=1e-5)
    # Without labels there is no vote.
    run = trainer([GraphProbe(loader(), every_n_epochs=1, embed=lambda m, b: m(b[0]))], max_epochs=1)
    run.fit(model, loader())
    assert "probe/dimension" in run.callback_metrics and "probe/loo" not in run.callback_metrics


def test_dead_features_give_nan_and_no_error():
    run = trainer([GraphProbe(loader(), every_n_epochs=1, embed=lambda m, b: (0 * m(b[0]), b[1]))], max_epochs=1)
    run.fit(Small(), loader())
    assert np.isnan(float(run.callback_metrics["probe/loo"]))


def test_bad_arguments():
    with pytest.raises(ValueError, match="every_n_epochs must be a whole number of at least 1"):
        GraphProbe(loader(), every_n_epochs=0)
    with pytest.raises(ValueError, match="at least 9 rows; got 5"):
        trainer([GraphProbe(loader(n=5), every_n_epochs=1)], max_epochs=1).fit(Small(), loader())
    with pytest.raises(ValueError, match="gave no batch"):
        trainer([GraphProbe([], every_n_epochs=1)], max_epochs=1).fit(Small(), loader())


class Writes(GraphProbe):
    """Leaves what each process has measured in the folder that it works in."""

    def measure(self, trainer, module):
        found = super().measure(trainer, module)
        Path(f"{trainer.world_size}-{trainer.global_rank}.json").write_text(json.dumps(found))
        return found


def train_with_probe(devices, strategy):
    torch.manual_seed(0)
    probe = Writes(loader(shuffle=True, n=61), every_n_epochs=1, embed=linear_features)
    trainer([probe], max_epochs=1, devices=devices, strategy=strategy).fit(Small(), loader(n=64))


@pytest.mark.skipif(sys.platform == "win32", reason="gloo between forked processes is tried on Unix")
def test_two_processes_give_the_figures_of_one(tmp_path):
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    for devices, strategy in ((1, "auto"), (2, "ddp_fork_find_unused_parameters_true")):
        words = [devices, strategy]
        done = run(f"{__name__}:train_with_probe", words, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
    one, first, second = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("1-0", "2-0", "2-1"))
    assert first == second and set(one) == {"probe/loo", "probe/dimension", "probe/effective_rank"}
    for name, value in one.items():
        assert first[name] == pytest.approx(value, rel=1e-6), name


def test_rows_without_a_label_neither_vote_nor_are_scored():
    X, y = blobs().tensors
    y = y.clone()
    y[::3] = -1
    probe = GraphProbe([(X, y)], every_n_epochs=1)
    model = Small()
    run = trainer([probe], max_epochs=1)
    run.fit(model, loader())
    with torch.no_grad():
        features = model.backbone.eval()(X).numpy()
    vote = asbc.NeighborVote(asbc.GraphBuilder(metric="cosine", k_cand=30)).fit(features, y.numpy())
    assert float(run.callback_metrics["probe/loo"]) == pytest.approx(vote.loo_score_, rel=1e-6)


def test_labels_that_are_all_missing_are_an_error():
    X, y = blobs().tensors
    with pytest.raises(ValueError, match=f"the labels of loader must have at least one label; all {len(y)} entries"):
        trainer([GraphProbe([(X, torch.full_like(y, -1))], every_n_epochs=1)], max_epochs=1).fit(Small(), loader())
