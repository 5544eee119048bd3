import numpy as np
import pytest

from asbc.evaluate.comparison import Comparison, compare, compare_methods
from asbc.report.evidence import read_evidence
from asbc.report.tables import fill_tables, interval
from asbc.runs.experiments import EXPERIMENTS
from tests.report.small import rows_of, write_run


def tables_of(folder, experiment):
    (subject,) = read_evidence([folder]).subjects
    return fill_tables(subject.studies[experiment])


@pytest.mark.parametrize("experiment", [name for name, record in EXPERIMENTS.items() if record.suggested])
def test_every_table_is_filled_and_printed(subject, experiment):
    tables = fill_tables(subject.studies[experiment])
    assert [table.name for table in tables] == [spec.name for spec in EXPERIMENTS[experiment].tables]
    for table in tables:
        assert table.rows and all(len(row) == len(table.header) for row in table.rows)
        assert any(isinstance(cell, Comparison) for row in table.rows for cell in row) or table.name == "ablation"
        assert table.rich().row_count == len(table.rows)
        assert table.markdown().count("\n") == len(table.rows) + 1


def test_accuracies_are_means_and_differences_are_comparisons(tmp_path):
    write_run(tmp_path, "loo", rows_of({"knn": 0.5, "nnk_sigma": 0.6}, levels=(10, 20)))
    study = read_evidence([tmp_path]).subjects[0].studies["loo"]
    (table,) = fill_tables(study)
    assert list(table.header[:3]) == ["method", "10", "20"] and [row[0] for row in table.rows] == ["kNN", "NNK-σ"]
    mean = study.rows.query("method == 'knn' and level == 10")["value"].mean()
    assert abs(float(table.rows[0][1]) - mean) < 6e-4 and table.rows[0][3] is None
    assert table.rows[1][3] == compare_methods(study.rows, "nnk_sigma", "knn", metric="loo")


def test_table_3_has_the_numbers_of_the_paper(subject):
    (table,) = fill_tables(subject.studies["gamma"])
    column = table.header.index("paper")
    found = {row[1]: row[column] for row in table.rows if row[0] == "NNK-σ"}
    assert found["0.5"] == "0.607" and found["1"] == "0.611"
    assert {row[column] for row in table.rows if row[0] == "kNN-σ"} == {None}, "the paper's accuracies are NNK-σ's"


def test_notes_do_not_mention_what_a_table_does_not_have(tmp_path):
    """Without labels there are no accuracies, and no differences between them."""
    for value in (1, 2):
        rows = rows_of({"nnk_sigma": 0.5}, metric="rank_median", scored=None, right=None)
        write_run(tmp_path, "n_grid", rows, bandwidth={"gamma": 1.0, "n_grid": value})
    (table,) = tables_of(tmp_path, "n_grid")
    assert table.note == ""
    assert list(table.header) == ["method", "n_grid", "median r"]
    assert all(cell is not None for row in table.rows for cell in row)


def test_rules_are_compared_with_the_spectral_one_with_the_same_weights(subject):
    study = subject.studies["selectors"]
    (table,) = fill_tables(study)
    cells = {(row[0], row[1]): row for row in table.rows}
    assert cells["spectral", "Gaussian"][3] is None and cells["spectral", "NNK"][3] is None
    assert cells["self tuning", "Gaussian"][3] == compare_methods(study.rows, "self_tuning_gaussian", "knn_sigma")
    assert cells["blend", "NNK + Gaussian"][3] == compare_methods(study.rows, "blend", "nnk_sigma")
    assert cells["UMAP", "its own"][3] == compare_methods(study.rows, "umap", "nnk_sigma")
    assert len(table.rows) == len(study.methods)


def test_regret_is_what_the_experiment_measured(subject):
    study = subject.studies["regret"]
    (table,) = fill_tables(study)
    measured = study.of("regret").groupby("method")["value"].mean()
    found = {(row[0], row[1]): row[3].difference for row in table.rows}
    assert np.isclose(found["spectral", "NNK"], measured["nnk_sigma"])
    assert np.isclose(found["perplexity", "Gaussian"], measured["perplexity_gaussian"])
    assert table.less_is_better


def test_a_metric_that_nobody_describes_gets_a_table(tmp_path):
    rows = rows_of({"knn": 0.1, "mine": 0.2}, metric="edge_agreement", scored=None, right=None)
    write_run(tmp_path, "my_experiment", rows)
    (table,) = tables_of(tmp_path, "my_experiment")
    assert list(table.header) == ["method", "edge agreement"] and [row[0] for row in table.rows] == ["kNN", "mine"]


def test_a_sweep_in_which_a_method_has_no_finite_score_has_a_table(tmp_path):
    for gamma, k_cand in ((0.5, 15), (0.5, 30), (1.0, 15), (1.0, 30)):
        rows = rows_of({"knn": 0.5}) + [row | {"value": np.nan} for row in rows_of({"nnk_sigma": 0.5})]
        write_run(tmp_path, "mine", rows, k_cand=k_cand, bandwidth={"gamma": gamma, "n_grid": 12})
    (table,) = [table for table in tables_of(tmp_path, "mine") if table.name == "runs"]
    assert len(table.rows) == 4 and "NNK-σ" not in " ".join(table.header)


def test_trials_that_all_agree_have_no_interval():
    assert interval(compare([0.5, 0.5, 0.5], [0.25, 0.25, 0.25])) == "+0.2500 in every trial"
    assert "[" in interval(compare([0.5, 0.6, 0.5], [0.25, 0.25, 0.25]))
