"""The best graph per task, the line that builds it, and what averages hide."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

import asbc
from asbc.configs import composed_methods, conf_dir
from asbc.evaluate import Sample
from asbc.report.command import make_report
from asbc.report.evidence import read_evidence
from asbc.report.verdicts import answer, caveats, recipe
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.results import StoredRun
from tests.report.small import rows_of, write_run

METHODS = sorted([*(path.stem for path in (conf_dir() / "method").glob("*.yaml")), *composed_methods()])


def subject_of(folder):
    (subject,) = read_evidence([folder]).subjects
    return subject


def test_a_clear_winner_is_called_best_and_has_its_size(tmp_path):
    write_run(tmp_path, "loo", rows_of({"knn": 0.5, "nnk_fixed": 0.6, "nnk_sigma": 0.8}))
    (vote,) = answer(subject_of(tmp_path))
    assert vote.method == "nnk_sigma" and vote.clear and vote.ranking.methods[1] == "nnk_fixed"
    assert 0.2 < vote.over("knn").low < 0.3 < vote.over("knn").high < 0.4 and vote.over("nnk_fixed").low > 0.1
    words = make_report([tmp_path], tmp_path / "page").read_text()
    assert "is better than every other graph" in words


def test_no_difference_is_an_answer(tmp_path):
    same = rows_of({"knn": 0.6})
    rows = same + [row | {"method": m} for row in same for m in ("nnk_sigma", "nnk_fixed")]
    write_run(tmp_path, "loo", rows)
    (vote,) = answer(subject_of(tmp_path))
    assert vote.method == "knn" and not vote.clear
    assert "is statistically tied with" in make_report([tmp_path], tmp_path / "page").read_text()


def test_two_that_lead_together_are_named_together(tmp_path):
    lead = rows_of({"knn": 0.5, "nnk_sigma": 0.8})
    write_run(tmp_path, "loo", lead + [row | {"method": "nnk_fixed"} for row in lead if row["method"] == "nnk_sigma"])
    (vote,) = answer(subject_of(tmp_path))
    assert vote.method == "nnk_sigma" and vote.ranking.alike == ["nnk_fixed"]
    assert "tied for best" in make_report([tmp_path], tmp_path / "page").read_text()


def test_few_trials_cannot_tell(tmp_path):
    write_run(tmp_path, "loo", rows_of({"knn": 0.5, "nnk_sigma": 0.8}, trials=2))
    (vote,) = answer(subject_of(tmp_path))
    assert not vote.enough and not vote.clear


def test_few_and_many_labels_have_answers_of_their_own_at_the_most_samples(tmp_path):
    few = rows_of({"knn": 0.7, "nnk_sigma": 0.6}, metric="lp", levels=(1,))
    many = rows_of({"knn": 0.7, "nnk_sigma": 0.9}, metric="lp", levels=(20,))
    whole = [row | {"samples": 0} for row in few + many]
    misleading = [row | {"samples": 30, "value": 0.0, "right": row["scored"]} for row in few]
    write_run(tmp_path, "lp", whole + misleading)
    subject = subject_of(tmp_path)
    first, second = answer(subject)
    assert (first.method, second.method) == ("knn", "nnk_sigma") and first.clear and second.clear
    assert first.task == "Label propagation, 1 label per class" and first.place.startswith("all samples")
    assert second.task == "Label propagation, 20 labels per class"
    found = [one.text for one in caveats(subject)]
    assert "In propagation, worse than kNN at 1 label per class and better at 20 labels per class: NNK-σ" in found


def test_a_graph_that_votes_better_and_clusters_worse_is_found(tmp_path):
    rows = rows_of({"knn": 0.6, "nnk_sigma": 0.9})
    for method, level in (("knn", 0.78), ("nnk_sigma", 0.65)):
        rows += [
            row | {"metric": "ari", "value": level + 0.001 * row["trial"], "scored": None, "right": None}
            for row in rows[:10]
            if row["method"] == method
        ]
    write_run(tmp_path, "ablation", rows, k_cand=10)
    (found,) = caveats(subject_of(tmp_path))
    assert found.text == "Better than kNN for the vote and worse for spectral clustering: NNK-σ"
    assert "ARI 0.652 against 0.782" in found.evidence


def test_a_rule_with_two_kinds_of_weights_is_named_twice(tmp_path):
    better = {"knn": 0.5, "self_tuning_gaussian": 0.8, "self_tuning_nnk": 0.9}
    worse = {"knn": 0.9, "self_tuning_gaussian": 0.3, "self_tuning_nnk": 0.2}
    write_run(tmp_path, "ablation", rows_of(better) + rows_of(worse, metric="ari"), k_cand=10)
    (found,) = caveats(subject_of(tmp_path))
    assert found.text.endswith(": self tuning (Gaussian) and self tuning (NNK)")


def test_a_sweep_gives_no_answer(tmp_path):
    for gamma in (0.5, 1.0):
        write_run(tmp_path, "gamma", rows_of({"knn": 0.5, "nnk_sigma": 0.8}), bandwidth={"gamma": gamma, "n_grid": 12})
    assert answer(subject_of(tmp_path)) == []


@pytest.mark.parametrize(("method", "symmetrize"), [*((method, "mean") for method in METHODS), ("knn", "null")])
def test_the_line_of_python_builds_the_graph_that_was_measured(method, symmetrize, clouds):
    words = [f"method=[{method}]", "k_cand=15", "graph.k_min=4", f"graph.symmetrize={symmetrize}"]
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = compose("config", overrides=words)
    X = clouds[0][::4]
    sample = Sample(
        asbc.normalize(X), None, search=partial(instantiate(cfg.neighbors)), k_min=4, symmetrize=cfg.graph.symmetrize
    )
    record = StoredRun(Path(), {}, OmegaConf.to_container(cfg, resolve=True), EXPERIMENTS["loo"])
    names = {"X": X}
    exec(recipe(record, method), names)
    wanted = sample.graph(instantiate(cfg.methods[method]))
    assert np.array_equal(names["A"].indices, wanted.indices)
    assert np.allclose(names["A"].data, wanted.data, rtol=1e-9)


def test_settings_that_do_not_say_how_give_no_line():
    assert recipe(StoredRun(Path(), {}, {}, EXPERIMENTS["loo"]), "knn") is None
    odd = {"methods": {"mine": {"_target_": "asbc.evaluate.Method", "weights": {"_target_": "nowhere.at_all"}}}}
    odd["neighbors"] = {"_target_": "asbc.search_neighbors", "k": 30, "metric": "cosine"}
    assert recipe(StoredRun(Path(), {}, odd, EXPERIMENTS["loo"]), "mine") is None
