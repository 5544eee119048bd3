import json
from dataclasses import asdict

import pytest
from hydra import compose, initialize_config_dir

from asbc.configs import conf_dir
from asbc.evaluate.tasks import METRICS, Metric
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import (
    FILE,
    Axis,
    Claim,
    Experiment,
    Figure,
    Table,
    from_data,
    load_record,
    read_record,
    write_record,
)
from asbc.storage import write_json

MINE = Experiment(
    "mine",
    metrics=(Metric("agreement", "edges of one class", higher_is_better=True),),
    axis=Axis("k_cand", "k", 30),
    figures=(Figure("levels", "mine", "Mine", metrics=("agreement",), options={"pair": ["a", "b"]}),),
    tables=(Table("methods", "mine", "Mine"),),
    claims=(Claim("a above b", "above", "agreement", ("a", "b")),),
)


@pytest.mark.parametrize("record", [*EXPERIMENTS.values(), MINE], ids=lambda record: record.name)
def test_a_record_survives_json(record):
    assert from_data(json.loads(json.dumps(asdict(record)))) == record


def test_every_experiment_of_the_configs_has_a_record_and_every_record_a_config():
    configs = {path.stem for path in (conf_dir() / "experiment").glob("*.yaml")} - {"paper"}
    assert configs == set(EXPERIMENTS)
    for name, record in EXPERIMENTS.items():
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            cfg = compose("config", overrides=[f"experiment={name}"], return_hydra_config=True)
        assert cfg.name == record.name == name
        swept = cfg.hydra.sweeper.params or {}
        assert list(swept) == ([record.axis.key.rpartition(".")[2]] if record.axis else [])


@pytest.mark.parametrize("record", EXPERIMENTS.values(), ids=lambda record: record.name)
def test_records_name_metrics_that_are_described(record):
    named = {m for table in record.tables for m in table.metrics} | {c.metric for c in record.claims if c.metric}
    assert {*named, *record.headline} <= set(METRICS)


def test_a_metric_without_a_description_gets_a_generic_one():
    assert MINE.metric("edge_agreement").title == "edge agreement"
    assert MINE.metric("agreement").title == "edges of one class"
    assert MINE.metric("loo") is METRICS["loo"]


def test_a_run_folder_gives_its_record_back(tmp_path):
    write_record(tmp_path, MINE)
    assert read_record(tmp_path, Experiment("mine")) == MINE
    assert read_record(tmp_path / "none", EXPERIMENTS["loo"]) is EXPERIMENTS["loo"]


@pytest.mark.parametrize(
    "content",
    ["not json", "[]", '{"name": "x"}', "{" * 100_000, "x" * 2**21],
    ids=["text", "list", "no checksum", "deep", "large"],
)
def test_a_damaged_record_is_reported_and_replaced(tmp_path, content, caplog):
    (tmp_path / FILE).write_text(content)
    assert read_record(tmp_path, EXPERIMENTS["loo"]) is EXPERIMENTS["loo"]
    assert FILE in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [{"headline": "loo"}, {"metrics": [{"label": "no name"}]}, {"figures": [3]}, {"needs_labels": "no"}, {"axis": []}],
)
def test_fields_of_another_type_are_refused(tmp_path, wrong, caplog):
    with pytest.raises(ValueError):
        from_data({"name": "x", **wrong})
    write_json(tmp_path / FILE, {"name": "x", **wrong})
    assert read_record(tmp_path, Experiment("x")) == Experiment("x")


def test_a_stranger_s_record_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "stranger_mod.py").write_text("raise SystemExit('imported')\nRECORD = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    write_json(tmp_path / FILE, {"name": "x", "record": "stranger_mod.RECORD", "_target_": "stranger_mod.RECORD"})
    assert read_record(tmp_path, Experiment("x", "own")) == Experiment("x")


def test_a_config_can_hold_or_name_a_record(tmp_path, monkeypatch):
    assert load_record({"title": "Mine", "metrics": [{"name": "a"}]}, Experiment("mine")).metric("a").title == "a"
    (tmp_path / "own_record.py").write_text("from asbc.runs import Experiment\nRECORD = Experiment('any', 'Title')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_record("own_record.RECORD", Experiment("mine")) == Experiment("mine", "Title")
    with pytest.raises(ValueError, match="my_experiment"):
        load_record("json.loads", Experiment("mine"))
