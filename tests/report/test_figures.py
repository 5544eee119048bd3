import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from asbc.report.evidence import read_evidence
from asbc.report.figures import LOOKS, WIDTHS, draw, draw_figures, figure_svgs, looks, panel_svg, save
from asbc.report.names import label, set_own_methods
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Experiment
from tests.report.small import rows_of, write_run


def figures_of(folder, experiment):
    (subject,) = read_evidence([folder]).subjects
    return draw_figures(subject.studies[experiment])


@pytest.mark.parametrize("experiment", [name for name, r in EXPERIMENTS.items() if r.suggested and r.figures])
def test_every_figure_is_drawn(subject, experiment):
    drawn = draw_figures(subject.studies[experiment])
    assert [drawing.name for drawing in drawn] == [spec.name for spec in EXPERIMENTS[experiment].figures]
    for drawing in drawn:
        assert drawing.caption and all(panel.title for panel in drawing.panels)
        for axes in draw(drawing.panels, drawing.columns).axes:
            assert axes.get_title("left") and axes.get_xlabel()


@pytest.mark.parametrize("width", WIDTHS)
def test_files_for_print_have_the_width_of_a_column_at_300_dpi(subject, tmp_path, width):
    (drawing,) = draw_figures(subject.studies["regimes"])
    first, again = (save(drawing, tmp_path / name, width, ("svg", "png", "pdf")) for name in "ab")
    assert [path.name for path in first] == ["fig1_regimes.svg", "fig1_regimes.png", "fig1_regimes.pdf"]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, again, strict=True))
    image = imread(first[1])
    assert abs(image.shape[1] - 300 * WIDTHS[width]) <= 1 and np.ptp(image[..., :3]) > 0.5
    assert first[2].read_bytes().startswith(b"%PDF")


def test_several_panels_have_one_legend_and_no_title_is_cut(subject, tmp_path):
    (drawing,) = draw_figures(subject.studies["loo"])
    for columns, size in ((3, (2.4, 2.2)), (1, (3.5, 2.6))):
        canvas = draw(drawing.panels, columns, size, font_size=8)
        canvas.draw_without_rendering()
        (legend,) = canvas.legends
        names = [text.get_text() for text in legend.get_texts()]
        assert len(names) == len(set(names)) == 6 and all(axes.get_legend() is None for axes in canvas.axes)
        assert all(axes._left_title.get_window_extent().x1 <= canvas.bbox.x1 for axes in canvas.axes)
        assert legend.get_window_extent().x0 >= 0 and legend.get_window_extent().x1 <= canvas.bbox.x1
    parts = figure_svgs(drawing, "salt")
    assert len(parts) == len(drawing.panels) + 1 and all(">NNK-σ-α<" not in part for part in parts[:-1])
    assert all(f">{name}<" in parts[-1] for name in names)


def test_svg_is_the_same_each_time_and_refers_to_nothing_else(subject, tmp_path):
    (drawing,) = draw_figures(subject.studies["alignment"])
    assert save(drawing, tmp_path)[0].read_text().startswith("<?xml")
    text = panel_svg(drawing.panels[0], (5, 4))
    assert text == panel_svg(drawing.panels[0], (5, 4)) and text.startswith(
        '<svg role="img" aria-label="r against dimMST'
    )
    assert "http" not in text and "<g id" not in text and "dimMST of the node" in text


def test_curves_show_the_means_and_the_intervals(tmp_path):
    write_run(tmp_path, "loo", rows_of({"knn": 0.5, "nnk_sigma": 0.7}, levels=(10, 20)))
    (subject,) = read_evidence([tmp_path]).subjects
    study = subject.studies["loo"]
    (drawing,) = draw_figures(study)
    curve, gain = draw(drawing.panels, 2).axes  # no NNK-fixed, so no panel for it
    lines = {line.get_label(): line.get_ydata() for line in curve.lines}
    wanted = study.rows[study.rows["method"] == "nnk_sigma"].groupby("level")["value"].mean()
    assert np.allclose(lines["NNK-σ"], wanted)
    (bars,) = gain.containers
    heights = [segment[:, 1] for segment in bars.lines[2][0].get_segments()]
    assert len(heights) == 2 and all(0.1 < low < high < 0.3 for low, high in heights)


@pytest.mark.parametrize("experiment, key", [("k_cand", None), ("n_grid", "n_grid")])
def test_sweeps_have_figures(tmp_path, experiment, key):
    for value in (12, 24, 30):
        settings = {"bandwidth": {"gamma": 1.0, key: value}} if key else {"k_cand": value}
        write_run(tmp_path, experiment, rows_of({"knn": 0.5, "nnk_sigma": 0.7}), **settings)
    (drawing,) = figures_of(tmp_path, experiment)
    axes = draw(drawing.panels, 2).axes
    assert len(axes) == 2 - (experiment == "n_grid") + (experiment == "n_grid") and axes[0].get_xlabel() == experiment


def test_figures_do_without_what_was_not_measured(tmp_path):
    pair = {"target": "mst", "estimator": "levina_bickel"}
    write_run(tmp_path / "a", "alignment", rows_of({"nnk_sigma": 0.5}, metric="spearman", **pair))
    medians = [("rank_median", 3.0), ("dimension_median", 4.0)]
    for gamma in (0.5, 1.0):
        rows = rows_of({"nnk_sigma": 0.6, "knn": 0.5})  # the last method has no rank
        rows += [row | {"metric": name, "value": v} for name, v in medians for row in rows_of({"nnk_sigma": 0.6})]
        write_run(tmp_path / "b", "gamma", rows, bandwidth={"gamma": gamma, "n_grid": 12})
    (drawing,) = figures_of(tmp_path / "a", "alignment")
    assert len(draw(drawing.panels, 2).axes) == 2
    (drawing,) = figures_of(tmp_path / "b", "gamma")
    ratio = draw([drawing.panels[-1]], 1).axes[0].get_lines()[0]
    assert ratio.get_ydata().tolist() == [0.75, 0.75]


def test_a_metric_that_nobody_describes_gets_a_figure(tmp_path):
    rows = rows_of({"knn": 0.1, "mine": 0.2}, metric="edge_agreement", levels=(5, 10), scored=None, right=None)
    write_run(tmp_path, "my_experiment", rows)
    (drawing,) = figures_of(tmp_path, "my_experiment")
    assert drawing.title == "edge agreement" and len(drawing.panels) == 2


def test_matplotlib_settings_of_the_user_have_no_effect_and_are_kept(subject):
    (drawing,) = draw_figures(subject.studies["regimes"])
    plain = panel_svg(drawing.panels[0], (5, 4))
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert panel_svg(drawing.panels[0], (5, 4)) == plain
        assert mpl.rcParams["font.size"] == 30


def test_methods_differ_in_more_than_colour():
    chosen = looks([*LOOKS, *(f"mine{i}" for i in range(12))])
    assert len(set(chosen.values())) == len(chosen)
    assert len({look.marker for look in LOOKS.values()}) == len(LOOKS)
    assert label("self_tuning_nnk") == "self tuning" and label("something_else") == "something else"


def test_methods_of_the_user_have_one_look_in_all_figures():
    mine = Experiment("loo", titles={"b": "B²", "knn_sigma": "σ"}, colors={"b": "#aa3377", "c": "url(x)"})
    set_own_methods([mine], ["knn", "a", "b", "c", "self_tuning_nnk"])
    assert label("b") == "B²" and label("knn_sigma") == "σ" and label("knn") == "kNN"
    alone, together = looks(["c", "self_tuning_nnk"]), looks(["knn", "a", "b", "c"])
    assert alone["c"] == together["c"] and together["b"].color == "#aa3377"
    assert len({look.color for look in together.values()}) == 4
    assert alone["self_tuning_nnk"] != alone["c"]
    set_own_methods([], [])
    assert label("b") == "b"
