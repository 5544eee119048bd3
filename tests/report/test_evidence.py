import shutil
from pathlib import Path

import pytest

from asbc.evaluate.tasks import Metric
from asbc.report.evidence import read_evidence
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Experiment, write_record
from asbc.runs.results import ResultsError
from tests.report.small import fail_run, rows_of, write_run

BOTH = {"knn": 0.5, "nnk_sigma": 0.6}


def test_every_experiment_of_a_real_folder_is_found(outputs):
    evidence = read_evidence([outputs])
    (subject,) = evidence.subjects
    assert subject.name == "clouds · files" and list(subject.studies) == [
        name for name, record in EXPERIMENTS.items() if record.suggested
    ]
    assert sorted(subject.studies["gamma"].rows["setting"].unique()) == [0.5, 1, 1.5]
    assert sorted(subject.studies["k_cand"].rows["setting"].unique()) == [15, 20]
    assert not any(part.others for part in subject.studies.values())


def test_a_run_found_twice_counts_once(outputs, tmp_path):
    shutil.copytree(outputs, tmp_path / "copy")
    once, twice = read_evidence([outputs]), read_evidence([outputs, tmp_path / "copy"])
    assert len(once.runs) == len(twice.runs)
    assert len(twice.subjects[0].studies["loo"].rows) == len(once.subjects[0].studies["loo"].rows)


def test_a_run_that_another_experiment_shows_keeps_the_names_of_its_own_metrics(tmp_path):
    write_run(tmp_path, "default", [*rows_of(BOTH), *rows_of(BOTH, metric="agreement")], id="mine")
    own = Experiment("default", metrics=(Metric("agreement", "agreement of edges"),))
    write_record(tmp_path / "mine", own)
    (subject,) = read_evidence([tmp_path]).subjects
    assert list(subject.studies) == ["loo"]
    study = subject.studies["loo"]
    assert study.record.metric("agreement").title == "agreement of edges"
    assert "agreement" in study.generic_metrics()


def test_runs_with_other_settings_are_left_out_and_named(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH), id="older", seed=1)
    write_run(tmp_path, "loo", rows_of(BOTH), id="newer", seed=2)
    part = read_evidence([tmp_path]).subjects[0].studies["loo"]
    assert [r.id for r in part.runs] == ["newer"] and [r.id for r in part.others] == ["older"]
    assert len(part.rows) == 10


def test_a_finished_run_is_shown_before_a_newer_unfinished_one(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH), id="whole")
    write_run(tmp_path, "loo", rows_of(BOTH), id="half", seed=2, finish=False)
    assert [r.id for r in read_evidence([tmp_path]).subjects[0].studies["loo"].runs] == ["whole"]


def test_a_sweep_is_what_differs_in_one_setting_only(tmp_path):
    for gamma in (0.5, 1.0, 2.0):
        write_run(tmp_path, "gamma", rows_of(BOTH), bandwidth={"gamma": gamma, "n_grid": 12})
    write_run(tmp_path, "gamma", rows_of(BOTH), bandwidth={"gamma": 1.5, "n_grid": 24})
    part = read_evidence([tmp_path]).subjects[0].studies["gamma"]
    assert sorted(part.rows["setting"].unique()) == [0.5, 1.0, 2.0] and len(part.others) == 1


def test_a_plain_sweep_stands_in_for_the_experiment_of_the_same_kind(tmp_path):
    write_run(tmp_path, "default", rows_of(BOTH))
    parts = read_evidence([tmp_path]).subjects[0].studies
    assert list(parts) == ["loo"]
    write_run(tmp_path, "default", rows_of(BOTH), bandwidth={"gamma": 2.0, "n_grid": 12})
    parts = read_evidence([tmp_path]).subjects[0].studies
    assert list(parts) == ["loo", "gamma"] and sorted(parts["gamma"].rows["setting"].unique()) == [1.0, 2.0]


def test_data_sets_are_kept_apart(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH))
    write_run(tmp_path, "loo", [row | {"dataset": "other"} for row in rows_of(BOTH)], dataset="other")
    assert [s.name for s in read_evidence([tmp_path]).subjects] == ["made · up", "other · up"]


def test_different_vectors_of_one_name_are_kept_apart_and_marked(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH), fingerprint="aaaaaa11")
    write_run(tmp_path, "lp", rows_of(BOTH, metric="lp"), fingerprint="aaaaaa11")
    (subject,) = read_evidence([tmp_path]).subjects
    assert subject.name == "made · up" and list(subject.studies) == ["loo", "lp"]
    write_run(tmp_path, "loo", rows_of(BOTH, seed=1), fingerprint="bbbbbb22")
    write_run(tmp_path, "loo", rows_of(BOTH, seed=2), fingerprint="aaaaaa33")
    write_run(tmp_path, "loo", rows_of(BOTH, seed=3), dataset="alone", fingerprint="cccccc44")
    subjects = read_evidence([tmp_path]).subjects
    assert [s.name for s in subjects] == [
        "made · up (aaaaaa11)",
        "made · up (bbbbbb22)",
        "made · up (aaaaaa33)",
        "alone · up",
    ]
    assert [list(s.studies) for s in subjects] == [["loo", "lp"], ["loo"], ["loo"], ["loo"]]
    assert not any(part.others for s in subjects for part in s.studies.values())
    assert len({s.slug for s in subjects}) == 4


def test_the_same_vectors_with_and_without_labels_are_one_subject(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH), fingerprint="both", facts={"vectors": "v", "labelled": True})
    blind = [row | {"metric": "chosen_rank_median", "samples": 0} for row in rows_of(BOTH)]
    write_run(tmp_path, "regimes", blind, fingerprint="v", facts={"vectors": "v", "labelled": False})
    (subject,) = read_evidence([tmp_path]).subjects
    assert list(subject.studies) == ["regimes", "loo"] and subject.labeled


def test_a_failed_experiment_is_known_with_its_error(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH), fingerprint="a")
    fail_run(tmp_path, "lp", fingerprint="a")
    (subject,) = read_evidence([tmp_path]).subjects
    assert subject.failed == {"lp": "RuntimeError: out of luck"}


def test_the_command_for_what_is_missing_repeats_what_was_typed(tmp_path):
    typed = ["embedding=files", "embedding.path=x.npy", "--config-dir", "."]
    write_run(tmp_path / "runs", "loo", rows_of(BOTH), id="abc", facts={"typed": typed})
    for folder in (tmp_path, tmp_path / "runs", tmp_path / "runs" / "abc"):
        (subject,) = read_evidence([folder]).subjects
        assert subject.command("lp") == "asbc experiment=lp embedding=files embedding.path=x.npy --config-dir ."


def test_folders_without_results_are_refused(tmp_path):
    with pytest.raises(ResultsError, match="no such folder"):
        read_evidence([tmp_path / "nowhere"])
    with pytest.raises(ResultsError, match=r"no runs in it.*asbc experiment=loo"):
        read_evidence([tmp_path])
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ResultsError, match="no runs in it"):
        read_evidence([tmp_path])
    write_run(tmp_path / "runs", "loo", rows_of(BOTH))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultsError, match="empty: no runs in it"):
        read_evidence([tmp_path / "runs", tmp_path / "empty"])


def test_runs_that_cannot_be_read_are_named_and_skipped(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH), id="good")
    (write_run(tmp_path, "lp", rows_of(BOTH), id="torn") / "results.parquet").write_bytes(b"PAR1 and then nothing")
    write_run(tmp_path, "lp", [{"colour": "red"}], id="foreign")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "status.json").write_text('{"healthy": true}')
    evidence = read_evidence([tmp_path])
    assert [run.id for run in evidence.runs] == ["good"]
    reasons = {Path(path).name: reason for path, reason in evidence.skipped.items()}
    assert set(reasons) == {"torn", "foreign", "other"}
    assert "damaged" in reasons["torn"] and "have no dataset" in reasons["foreign"]


def test_a_folder_with_nothing_readable_is_refused(tmp_path):
    (write_run(tmp_path, "loo", rows_of(BOTH)) / "results.parquet").write_bytes(b"torn")
    with pytest.raises(ResultsError, match="damaged"):
        read_evidence([tmp_path])


def test_runs_that_have_no_rows_yet_are_said_to_be_there(tmp_path):
    from asbc.runs.results import Run

    with Run(tmp_path, "abc", {}) as run:
        run.begin(experiment="loo", dataset="made", encoder="up")
    with pytest.raises(ResultsError, match=r"no run has results yet.*abc running"):
        read_evidence([tmp_path])
