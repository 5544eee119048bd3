"""Comparisons of a study are those of asbc.evaluate, each computed once."""

import pytest

from asbc.evaluate.comparison import compare_methods
from asbc.report import evidence
from asbc.report.evidence import read_evidence
from tests.report.small import rows_of, write_run

METHODS = {"knn": 0.5, "nnk_fixed": 0.58, "nnk_sigma": 0.6}


def test_a_comparison_is_computed_once(tmp_path, monkeypatch):
    write_run(tmp_path, "loo", rows_of(METHODS))
    loo = read_evidence([tmp_path]).subjects[0].studies["loo"]
    calls = []
    monkeypatch.setattr(
        evidence, "compare", lambda *a, _plain=evidence.compare, **k: calls.append(a) or _plain(*a, **k)
    )
    first, second = (loo.compare("nnk_sigma", "knn", "loo") for _ in range(2))
    assert first is second and len(calls) == 1
    assert first == compare_methods(loo.rows, "nnk_sigma", "knn")
    other = loo.compare("nnk_sigma", "nnk_fixed", "loo")
    assert len(calls) == 2 and other == compare_methods(loo.rows, "nnk_sigma", "nnk_fixed")


def test_intervals_depend_on_which_nodes_were_right(tmp_path):
    rows = rows_of(METHODS)
    shuffled = [row | {"right": row["right"][::-1]} for row in rows if row["method"] == "knn"]
    write_run(tmp_path, "loo", rows)
    write_run(tmp_path, "ablation", [row for row in rows if row["method"] != "knn"] + shuffled)
    studies = read_evidence([tmp_path]).subjects[0].studies
    first, second = (studies[name].compare("nnk_sigma", "knn", "loo") for name in ("loo", "ablation"))
    assert first.difference == pytest.approx(second.difference) and first.high < second.high


def test_two_settings_are_compared_by_their_rows(tmp_path):
    for gamma, better in ((0.5, 0.0), (1.0, 0.05)):
        rows = rows_of({name: share + better for name, share in METHODS.items()})
        write_run(tmp_path, "gamma", rows, bandwidth={"gamma": gamma, "n_grid": 12})
    gamma = read_evidence([tmp_path]).subjects[0].studies["gamma"]
    own = gamma.rows[gamma.rows["method"] == "nnk_sigma"]
    found = gamma.compare_settings("nnk_sigma", 1.0, "loo", 0.5)
    assert found == compare_methods(own.assign(method=own["setting"].astype(str)), "1.0", "0.5")
    assert found.difference > 0 and gamma.compare_settings("nnk_sigma", 1.0, "loo", 2.0) is None
