"""Results of strangers: nothing they name is imported, and what cannot be read safely is named and skipped."""

import json

from asbc.evaluate.tasks import Metric
from asbc.report.command import make_report
from asbc.report.evidence import read_evidence
from asbc.report.verdicts import recipe
from asbc.runs.record import Claim, Experiment, Figure, Table, write_record
from tests.report.small import rows_of, write_run

BOTH = {"knn": 0.5, "nnk_sigma": 0.8}
HOSTILE = "<script>window.evil = 1</script>"


def test_modules_that_a_config_names_are_not_imported(tmp_path, monkeypatch):
    (tmp_path / "stranger_mod.py").write_text(
        f"open({str(tmp_path / 'imported')!r}, 'w').close()\ndef Rule(): pass\nsearch_neighbors = Rule\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    rule = {"_target_": "stranger_mod.Rule"}
    for number, search in enumerate((rule, {"_target_": "asbc.search_neighbors", "k": 30, "metric": "cosine"})):
        method = {"_target_": "asbc.evaluate.Method", "weights": "nnk", "bandwidth": rule}
        settings = {"neighbors": search, "methods": {"nnk_sigma": method}}
        write_run(tmp_path / "runs", "loo", rows_of(BOTH), id=f"run{number}", **settings)
        page = make_report([tmp_path / "runs" / f"run{number}"], tmp_path / f"page{number}")
        assert not (tmp_path / "imported").exists()
        assert "_target_: stranger_mod.Rule" in page.read_text(), "the settings are shown as data"
        run = read_evidence([tmp_path / "runs" / f"run{number}"]).runs[0]
        assert recipe(run, "nnk_sigma") is None


def test_a_status_that_would_take_all_memory_is_named_and_skipped(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH), id="good")
    (write_run(tmp_path, "loo", rows_of(BOTH), id="bomb") / "status.json").write_text("[" * 1_000_000)
    evidence = read_evidence([tmp_path])
    assert [run.id for run in evidence.runs] == ["good"] and [p.split("/")[-1] for p in evidence.skipped] == ["bomb"]
    page = make_report([tmp_path]).read_text()
    assert "Skipped, because they cannot be read safely" in page and "/bomb" in page


def test_the_record_of_a_stranger_is_shown_as_text(tmp_path):
    record = Experiment(
        "theirs",
        title=f"Their work {HOSTILE}",
        question=HOSTILE,
        headline=("share",),
        metrics=(Metric("share", f"share {HOSTILE}", percent=True),),
        figures=(Figure("unknown", "../../../../outside", HOSTILE, HOSTILE, ("share",)),),
        tables=(Table("unknown", "t", HOSTILE, HOSTILE, ("share",)),),
        claims=(
            Claim(HOSTILE, "order", "share", ("knn", "nnk_sigma")),
            Claim("strange", "unknown kind"),
            Claim("broken", "flat", "share"),
        ),
    )
    rows = rows_of({"knn": 0.1, "nnk_sigma": 0.2}, metric="share", scored=None, right=None)
    write_record(write_run(tmp_path / "runs", "theirs", rows), record)
    page = make_report([tmp_path / "runs"], tmp_path / "a" / "b" / "page")
    text = page.read_text()
    assert HOSTILE not in text and text.count("&lt;script&gt;window.evil = 1") >= 6
    assert "The claim cannot be tested" in text and "strange" not in text
    assert "20.0%" in text or "0.2" in text
    inside = tmp_path / "a" / "b" / "page"
    assert all(path.is_relative_to(inside) for path in (tmp_path / "a").rglob("*.svg"))


def test_a_damaged_record_is_replaced_by_our_own(tmp_path):
    run = write_run(tmp_path, "loo", rows_of(BOTH))
    (run / "experiment.json").write_text(json.dumps({"name": "loo", "title": "Forged"}))
    assert "Forged" not in make_report([tmp_path]).read_text()
