"""Results that version 0.1.0 wrote, where the candidates were called `neighbors.k`, are read like those of today."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from asbc.report.command import make_report
from asbc.report.evidence import read_evidence
from asbc.results import collect, read_rows, runs
from asbc.runs.loggers import RunFacts
from asbc.runs.results import read_settings
from asbc.runs.wandb_logger import wandb_config
from tests.report.small import rows_of, write_run

BOTH = {"knn": 0.5, "nnk_sigma": 0.6}
CONFIG = """\
neighbors:
  _target_: asbc.search_neighbors
  _partial_: true
  k: {k}
  metric: cosine
dimension:
  _target_: asbc.evaluate.sample.Dimension
  estimator: mst
  n_rep: 5
  k: 10
bandwidth:
  _target_: asbc.SpectralBandwidth
  gamma: {gamma}
  n_grid: 12
name: {experiment}
seed: 0
data:
  experiment: {experiment}
  dataset: made
  encoder: up
  fingerprint: abc
  version: 0.1.0
"""


def old_run(root, experiment, *, k=30, gamma=1.0):
    """A run's folder as version 0.1.0 left it, every file written by hand."""
    folder = root / f"{experiment}-{k}-{gamma}"
    folder.mkdir(parents=True)
    rows = rows_of(BOTH)
    for row in rows:
        del row["k_cand"]
        row |= {"run_id": folder.name, "experiment": experiment, "neighbors.k": k, "neighbors.metric": "cosine"}
    table = pa.Table.from_pylist(rows).replace_schema_metadata({b"asbc_format": b"1"})
    pq.write_table(table, folder / "results.parquet")
    (folder / "config.yaml").write_text(CONFIG.format(k=k, gamma=gamma, experiment=experiment))
    status = {
        "format": 1, "run_id": folder.name, "state": "finished", "attempt": 1, "started": 1.0 + k, "ended": 9.0,
        "experiment": experiment, "dataset": "made", "encoder": "up", "fingerprint": "abc", "version": "0.1.0",
        "rows": len(rows), "units": 5,
    }  # fmt: skip
    (folder / "status.json").write_text(json.dumps(status))
    return folder


def test_the_column_has_its_name_of_today(tmp_path):
    folder = old_run(tmp_path, "loo", k=20)
    assert "neighbors.k" in pq.read_schema(folder / "results.parquet").names
    rows = read_rows(folder / "results.parquet")
    assert (rows["k_cand"] == 20).all() and "neighbors.k" not in rows
    write_run(tmp_path, "loo", rows_of(BOTH), id="new")
    table = collect(tmp_path)
    assert sorted(table["k_cand"].unique()) == [20, 30] and "neighbors.k" not in table
    assert [status["version"] for folder, status in runs(tmp_path) if folder.name != "new"] == ["0.1.0"]


def test_a_sweep_over_candidates_is_found(tmp_path):
    for k in (15, 30, 60):
        old_run(tmp_path, "k_cand", k=k)
    (subject,) = read_evidence([tmp_path]).subjects
    part = subject.parts["k_cand"]
    assert sorted(part.rows["setting"].unique()) == [15, 30, 60] and not part.others
    assert [record.setting("k_cand") for record in part.records] == [15, 30, 60]
    words = make_report([tmp_path], tmp_path / "report").read_text()
    assert "k_cand = 30" in words and "Not run yet" in words


@pytest.mark.parametrize("new_place", ["asbc.Dimension", "asbc.elsewhere.Dimension"])
def test_a_sweep_half_of_which_is_old_is_one_sweep(tmp_path, new_place):
    old_run(tmp_path, "gamma", gamma=0.5)
    folder = old_run(tmp_path, "gamma", gamma=1.0)
    text = (folder / "config.yaml").read_text()
    text = text.replace("asbc.evaluate.sample.Dimension", new_place) + "k_cand: 30\n"
    (folder / "config.yaml").write_text(text)
    part = read_evidence([tmp_path]).subjects[0].parts["gamma"]
    assert sorted(part.rows["setting"].unique()) == [0.5, 1.0] and not part.others


def test_other_candidates_are_another_sweep(tmp_path):
    for gamma, k in ((0.5, 30), (1.0, 30), (2.0, 15)):
        old_run(tmp_path, "gamma", gamma=gamma, k=k)
    part = read_evidence([tmp_path]).subjects[0].parts["gamma"]
    assert sorted(part.rows["setting"].unique()) == [0.5, 1.0] and len(part.others) == 1


def test_settings_have_their_names_of_today(tmp_path):
    settings = read_settings(old_run(tmp_path, "loo", k=20))
    assert settings["k_cand"] == settings["neighbors"]["k"] == 20
    assert wandb_config(RunFacts("abc", 1, tmp_path, settings, settings["data"]))["k_cand"] == 20


def test_the_old_name_of_the_command_works():
    from asbc.report.cli import make_report as named_before

    assert named_before is make_report
