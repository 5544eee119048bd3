from asbc.evaluate.comparison import compare_methods
from asbc.report import contrasts
from asbc.report.evidence import read_evidence
from tests.report.small import rows_of, write_run

METHODS = {"knn": 0.5, "nnk_fixed": 0.58, "nnk_sigma": 0.6}


def test_what_two_experiments_have_both_measured_is_compared_once(tmp_path, monkeypatch):
    write_run(tmp_path, "loo", rows_of(METHODS))
    write_run(tmp_path, "ablation", rows_of(METHODS))
    parts = read_evidence([tmp_path]).subjects[0].parts
    made = []
    monkeypatch.setattr(
        contrasts, "compare", lambda *a, _plain=contrasts.compare, **k: made.append(a) or _plain(*a, **k)
    )
    first, second = (contrasts.between(parts[name], "nnk_sigma", "knn", "loo") for name in ("loo", "ablation"))
    assert first is second and len(made) == 1
    assert first == compare_methods(parts["loo"].rows, "nnk_sigma", "knn")
    other = contrasts.between(parts["ablation"], "nnk_sigma", "nnk_fixed", "loo")
    assert len(made) == 2 and other == compare_methods(parts["loo"].rows, "nnk_sigma", "nnk_fixed")


def test_equal_accuracies_of_other_nodes_are_another_comparison(tmp_path):
    rows = rows_of(METHODS)
    shuffled = [row | {"scored": row["scored"], "right": row["right"][::-1]} for row in rows if row["method"] == "knn"]
    write_run(tmp_path, "loo", rows)
    write_run(tmp_path, "ablation", [row for row in rows if row["method"] != "knn"] + shuffled)
    parts = read_evidence([tmp_path]).subjects[0].parts
    first, second = (contrasts.between(parts[name], "nnk_sigma", "knn", "loo") for name in ("loo", "ablation"))
    assert first.difference == second.difference and first.high < second.high


def test_a_setting_against_another_is_the_comparison_of_their_rows(tmp_path):
    for gamma, better in ((0.5, 0.0), (1.0, 0.05)):
        rows = rows_of({name: share + better for name, share in METHODS.items()})
        write_run(tmp_path, "gamma", rows, bandwidth={"gamma": gamma, "n_grid": 12})
    part = read_evidence([tmp_path]).subjects[0].parts["gamma"]
    own = part.rows[part.rows["method"] == "nnk_sigma"]
    found = contrasts.across(part, "nnk_sigma", 1.0, 0.5, "loo")
    assert found == compare_methods(own.assign(method=own["setting"].astype(str)), "1.0", "0.5")
    assert found.difference > 0 and contrasts.across(part, "nnk_sigma", 1.0, 2.0, "loo") is None
