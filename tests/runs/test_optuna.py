import pytest
from omegaconf import OmegaConf

from asbc.runs.results import collect
from tests.runs.test_command import asbc

pytest.importorskip("optuna")

SMALL = ["debug=default", "progress=false", "logger=none", "method=[nnk_sigma]"]


def test_optuna_chooses_values_and_writes_the_best(tmp_path, monkeypatch):
    search = ["hydra.sweeper.n_trials=4", "gamma=interval(0.5,2)", "k_cand=choice(12,20)"]
    code = asbc(
        monkeypatch, "-m", "hydra/sweeper=optuna", "optimized_metric=loo/nnk_sigma", f"out={tmp_path}", *SMALL, *search
    )
    assert not code
    table = collect(tmp_path)
    loo = table[table["metric"] == "loo"]
    assert loo["bandwidth.gamma"].between(0.5, 2).all() and set(loo["k_cand"]) <= {12, 20}
    assert 2 <= loo["run_id"].nunique() <= 4
    (results,) = tmp_path.rglob("optimization_results.yaml")
    best = OmegaConf.load(results)
    assert best.trials == 4 and best.best_value == pytest.approx(loo["value"].max())
    assert set(best.best_params) == {"gamma", "k_cand"}


def test_a_search_from_a_config_file(tmp_path, monkeypatch):
    code = asbc(
        monkeypatch,
        "-m",
        "hparams_search=bandwidth",
        "hydra.sweeper.n_trials=2",
        f"out={tmp_path}",
        *SMALL,
        "k_cand=15",
    )
    assert not code
    (results,) = tmp_path.rglob("optimization_results.yaml")
    assert set(OmegaConf.load(results).best_params) == {"gamma"}  # k_cand is given, so it is not searched


@pytest.mark.parametrize(
    "words, why",
    [
        (["gamma=interval(0.5,2)"], "optimized_metric=loo/nnk_sigma"),
        (["optimized_metric=loo/nnk_sigma", "gamma=1"], "nothing to vary"),
    ],
)
def test_a_search_that_cannot_work_is_refused(words, why, tmp_path, monkeypatch, capfd):
    with pytest.raises(SystemExit) as stop:
        raise SystemExit(asbc(monkeypatch, "-m", "hydra/sweeper=optuna", f"out={tmp_path}", *SMALL, *words))
    assert why in f"{stop.value}{''.join(capfd.readouterr())}"
