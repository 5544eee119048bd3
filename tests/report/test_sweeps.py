"""Whatever settings differ between runs become axes of figures and a table."""

import pytest

from asbc.report.command import make_report
from asbc.report.evidence import read_evidence
from asbc.report.figures import draw, draw_figures
from asbc.report.tables import fill_tables
from asbc.report.verdicts import judge
from tests.report.small import rows_of, write_run


def accuracy(gamma, k_cand):
    """Best at gamma = 2 with 15 candidates."""
    return {"knn": 0.5, "nnk_sigma": 0.6 + 0.05 * (gamma == 2) + 0.05 * (k_cand == 15)}


def write_sweep(folder, experiment, gammas, candidates):
    for gamma in gammas:
        for k in candidates:
            bandwidth = {"gamma": gamma, "n_grid": 12}
            # Copies of a setting are not axes of their own.
            settings = {"neighbors": {"k": k}, "methods": {"nnk_sigma": {"bandwidth": bandwidth}}}
            rows = rows_of(accuracy(gamma, k))
            write_run(folder, experiment, rows, id=f"{gamma}-{k}", k_cand=k, bandwidth=bandwidth, **settings)
    (subject,) = read_evidence([folder]).subjects
    return subject


def test_one_setting_is_a_curve_with_intervals(tmp_path):
    subject = write_sweep(tmp_path, "loo", [1.0], [15, 30, 60])
    study = subject.studies["loo"]
    assert study.sweep.axes == {"k_cand": 30} and [run.id for run in study.runs] == ["1.0-30"]
    figure = draw_figures(study)[-1]
    (axes,) = draw(figure.panels, 1).axes
    assert axes.get_xlabel() == "k_cand" and [tick.get_text() for tick in axes.get_xticklabels()] == ["15", "30", "60"]
    assert len(axes.containers) == 2, "an interval for each method"


def test_two_settings_are_a_heatmap_and_a_table_without_hashes(tmp_path):
    subject = write_sweep(tmp_path, "loo", [0.5, 1.0, 2.0], [15, 30])
    study = subject.studies["loo"]
    assert study.sweep.axes == {"gamma": 1.0, "k_cand": 30} and [run.id for run in study.runs] == ["1.0-30"]
    assert study.sweep.best("nnk_sigma") == {"gamma": 2.0, "k_cand": 15}
    figure = draw_figures(study)[-1]
    axes, bar = draw(figure.panels, 1).axes
    assert bar.get_ylabel() == "LOO" and "20 samples per class" in figure.caption
    assert {axes.get_xlabel(), axes.get_ylabel()} == {"gamma", "k_cand"} and len(axes.texts) == 6
    table = fill_tables(study)[-1]
    assert set(table.header[:2]) == {"gamma", "k_cand"} and len(table.rows) == 6
    first = dict(zip(table.header, table.rows[0], strict=True))
    assert (first["gamma"], first["k_cand"]) == ("2", "15")
    text = make_report([tmp_path]).read_text()
    assert "All runs by their settings" in text and "not shown" not in text


def test_more_settings_have_heatmaps_at_the_default_and_at_the_best(tmp_path):
    for gamma in (1.0, 2.0):
        for k in (15, 30):
            for metric in ("cosine", "euclidean"):
                bandwidth = {"gamma": gamma, "n_grid": 12}
                settings = {"k_cand": k, "bandwidth": bandwidth, "neighbors": {"metric": metric}}
                write_run(tmp_path, "loo", rows_of(accuracy(gamma, k)), id=f"{gamma}-{k}-{metric}", **settings)
    study = read_evidence([tmp_path]).subjects[0].studies["loo"]
    assert study.sweep.axes == {"gamma": 1.0, "k_cand": 30, "metric": "cosine"}
    titles = [panel.title for panel in draw_figures(study)[-1].panels]
    named = {"k_cand = 30 (paper)", "k_cand = 15 (best)", "gamma = 1 (paper)", "gamma = 2 (best)", "metric = cosine"}
    assert named == set(titles)


@pytest.mark.parametrize("newest", [0.5, 1.0, 2.0])
def test_claims_come_from_the_run_nearest_to_the_paper(tmp_path, newest):
    gammas = [gamma for gamma in (0.5, 1.0, 2.0) if gamma != newest]
    subject = write_sweep(tmp_path, "loo", [*gammas, newest], [30])
    (claim,) = [one for one in judge(subject) if one.text == "LOO: kNN < kNN-σ < NNK-σ"]
    assert subject.studies["loo"].runs[0].setting("bandwidth.gamma") == 1.0 and claim.verdict == "not run"


def test_a_sweep_of_the_experiment_itself_needs_no_second_figure(tmp_path):
    subject = write_sweep(tmp_path, "gamma", [0.5, 1.0, 2.0], [30])
    assert subject.studies["gamma"].sweep is None
    subject = write_sweep(tmp_path, "gamma", [0.5, 1.0, 2.0], [15])
    study = subject.studies["gamma"]
    assert {run.setting("k_cand") for run in study.runs} == {30} and set(study.sweep.axes) == {"gamma", "k_cand"}
