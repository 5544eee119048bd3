import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from asbc.report.evidence import read_evidence
from asbc.report.figures import FIGURES, draw, loo, png, save
from asbc.report.style import LOOKS, label, style
from tests.report.small import rows_of, write_run


@pytest.mark.parametrize("experiment", list(FIGURES))
def test_every_figure_can_be_drawn(subject, experiment):
    figure = FIGURES[experiment](subject.parts[experiment])
    assert len(figure.panels) == len(figure.alt) > 0 and figure.caption
    for axes in draw(figure.panels).axes:
        assert axes.get_title("left") and axes.get_xlabel()
    image = imread(io.BytesIO(png(figure.panels[:1], dpi=40)))
    assert np.ptp(image[..., :3]) > 0.5  # something is on it


def test_figures_are_saved_in_both_formats_and_are_the_same_each_time(subject, tmp_path):
    figure = FIGURES["regimes"](subject.parts["regimes"])
    first, second = save(figure, tmp_path / "a"), save(figure, tmp_path / "b")
    assert [path.name for path in first] == ["fig1_regimes.png", "fig1_regimes.pdf"]
    assert [a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True)] == [True, True]
    assert first[0].read_bytes().startswith(b"\x89PNG") and first[1].read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["fig1_regimes.pdf", "fig1_regimes.png"]


def test_curves_show_the_means_and_the_intervals(tmp_path):
    write_run(tmp_path, "loo", rows_of({"knn": 0.5, "nnk_sigma": 0.7}, levels=(10, 20)))
    part = read_evidence([tmp_path]).subjects[0].parts["loo"]
    curve, gain = draw(loo(part).panels).axes  # no NNK-fixed, so no panel for it
    lines = {line.get_label(): line.get_ydata() for line in curve.lines}
    wanted = part.rows[part.rows["method"] == "nnk_sigma"].groupby("level")["value"].mean()
    assert np.allclose(lines["NNK-σ"], wanted)
    (bars,) = gain.containers
    heights = [segment[:, 1] for segment in bars.lines[2][0].get_segments()]
    assert len(heights) == 2 and all(0.1 < low < high < 0.3 for low, high in heights)


def test_a_users_own_matplotlib_settings_stay_out_and_stay_as_they_were(subject):
    figure = FIGURES["regimes"](subject.parts["regimes"])
    plain = png(figure.panels[:1], dpi=40)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert png(figure.panels[:1], dpi=40) == plain
        assert mpl.rcParams["font.size"] == 30


def test_methods_can_be_told_apart_without_colour():
    assert len({look[0] for look in LOOKS.values()}) == len(LOOKS)
    assert len({look[1] for look in LOOKS.values()}) == len(LOOKS)
    with style():
        assert mpl.rcParams["savefig.dpi"] == 200
    assert label("self_tuning_nnk") == "self tuning" and label("something_else") == "something else"
