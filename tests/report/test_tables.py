import numpy as np
import pytest

from asbc.evaluate.comparison import Comparison, compare_methods
from asbc.report.evidence import read_evidence
from asbc.report.findings import find
from asbc.report.markup import table_html
from asbc.report.paper import at_gamma, paper
from asbc.report.parts import EXPERIMENTS
from asbc.report.tables import TABLES, accuracy, gamma, regret, selectors
from tests.report.small import rows_of, write_run


@pytest.mark.parametrize("experiment", list(TABLES))
def test_every_table_can_be_made_and_printed(subject, experiment):
    assert experiment in EXPERIMENTS
    for make in TABLES[experiment]:
        table = make(subject.parts[experiment])
        assert table.rows and all(len(row) == len(table.header) for row in table.rows)
        assert any(isinstance(cell, Comparison) for row in table.rows for cell in row) or table.name == "ablation"
        assert table.rich().row_count == len(table.rows)
        assert table.markdown().count("\n") == len(table.rows) + 1


def test_accuracies_are_means_and_differences_are_those_of_comparison(tmp_path):
    write_run(tmp_path, "loo", rows_of({"knn": 0.5, "nnk_sigma": 0.6}, levels=(10, 20)))
    part = read_evidence([tmp_path]).subjects[0].parts["loo"]
    table = accuracy(part, "loo")
    assert list(table.header[:3]) == ["method", "10", "20"] and [row[0] for row in table.rows] == ["kNN", "NNK-σ"]
    mean = part.rows.query("method == 'knn' and level == 10")["value"].mean()
    assert abs(float(table.rows[0][1]) - mean) < 6e-4 and table.rows[0][3] is None
    assert table.rows[1][3] == compare_methods(part.rows, "nnk_sigma", "knn", metric="loo")


def test_table_3_has_the_papers_numbers_where_it_prints_them(subject):
    table = gamma(subject.parts["gamma"])
    by_gamma = {row[0]: row for row in table.rows}
    assert by_gamma["0.5"][2] == "0.607" and by_gamma["1"][2] == "0.611" and by_gamma["1.5"][5] == "26.3"
    assert at_gamma(0.6, "loo") is None
    lengths = {len(values) for name, values in paper()["gamma"].items() if name != "dimension_median"}
    assert lengths == {6}


def test_notes_of_tables_say_nothing_of_what_is_not_in_them(tmp_path):
    """Without labels there are no accuracies, and no differences between them."""
    for name, key in (("gamma", "gamma"), ("n_grid", "n_grid")):
        for value in (1, 2):
            rows = rows_of({"nnk_sigma": 0.5}, metric="rank_median", scored=None, right=None)
            write_run(tmp_path, name, rows, bandwidth={"gamma": 1.0, "n_grid": 12, key: value})
    write_run(tmp_path, "ablation", rows_of({"knn": 0.5, "nnk_sigma": 0.6}, metric="edges", scored=None, right=None))
    tables = find(read_evidence([tmp_path]).subjects[0]).tables
    notes = {name: " ".join(table.note for table in tables[name]) for name in tables}
    assert notes["gamma"].rstrip().endswith("not expected to give the same ranks.") and notes["n_grid"] == ""
    assert notes["ablation"].startswith("Means over trials. Neighbours")
    assert 'class="note"' not in table_html(tables["n_grid"][0])


def test_rules_are_set_against_the_spectral_one_with_the_same_weights(subject):
    table = selectors(subject.parts["selectors"])
    part = subject.parts["selectors"]
    cells = {(row[0], row[1]): row for row in table.rows}
    assert cells["spectral", "gaussian"][3] is None and cells["spectral", "NNK"][3] is None
    assert cells["self tuning", "gaussian"][3] == compare_methods(part.rows, "self_tuning_gaussian", "knn_sigma")
    assert cells["blend", "NNK + gaussian"][3] == compare_methods(part.rows, "blend", "nnk_sigma")
    assert cells["UMAP", "its own"][3] == compare_methods(part.rows, "umap", "nnk_sigma")
    assert len(table.rows) == len(part.methods)


def test_regret_is_what_the_experiment_measured(subject):
    part = subject.parts["regret"]
    table = regret(part)
    measured = part.of("regret").groupby("method")["value"].mean()
    found = {(row[0], row[1]): row[3].difference for row in table.rows}
    assert np.isclose(found["spectral", "NNK"], measured["nnk_sigma"])
    assert np.isclose(found["perplexity", "gaussian"], measured["perplexity_gaussian"])
    assert table.less_is_better


def test_columns_with_nothing_in_them_are_left_out(tmp_path):
    for value in (0.5, 1.0):
        rows = [row | {"metric": "rank_median", "value": 7.0} for row in rows_of({"nnk_sigma": 0.5})]
        write_run(tmp_path, "gamma", rows, bandwidth={"gamma": value, "n_grid": 12})
    (subject,) = read_evidence([tmp_path]).subjects
    (table,) = find(subject).tables["gamma"]
    assert list(table.header) == ["γ", "median r", "paper"] and [row[0] for row in table.rows] == ["0.5", "1"]
    assert all(cell is not None for row in table.rows for cell in row)
