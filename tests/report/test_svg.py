"""Panels as SVG: well formed, to scale, and with nothing in them that was not meant."""

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from asbc.report import sections
from asbc.report.canvas import draw
from asbc.report.chart import (
    Axis,
    Band,
    Box,
    Cells,
    Figure,
    Line,
    Note,
    Panel,
    Rule,
    Whiskers,
    decades,
    panel_size,
    round_ticks,
)
from asbc.report.figures import FIGURES
from asbc.report.style import LOOKS
from asbc.report.svg import figure_svg, panel_svg, sample_svg

SVG = "{http://www.w3.org/2000/svg}"


def parsed(panel):
    return ElementTree.fromstring(figure_svg(Figure("name", "title", "", [panel], ["words"])))


def paths(panel):
    return [element.get("d") for element in parsed(panel).iter(f"{SVG}path")]


def words(panel):
    return [element.text for element in parsed(panel).iter(f"{SVG}text")]


@pytest.mark.parametrize("experiment", list(FIGURES))
def test_every_figure_is_well_formed_and_says_what_it_shows(subject, experiment):
    figure = FIGURES[experiment](subject.parts[experiment])
    root = ElementTree.fromstring(figure_svg(figure))
    shown = {element.text for element in root.iter(f"{SVG}text")}
    for panel, alt in zip(figure.panels, figure.alt, strict=True):
        assert {panel.title, panel.x.label, *(mark.label for mark in panel.legend)} <= shown
        assert f'role="img" aria-label="{alt}"' in panel_svg(panel, alt, panel_size(2))
    drawn = [element.get("d") for element in root.iter(f"{SVG}path")]
    assert all(drawn) and not any("nan" in way or "inf" in way for way in drawn)
    assert figure_svg(figure) == figure_svg(figure)


def test_points_stand_where_their_values_are():
    panel = Panel("", Axis(low=0, high=10), Axis(low=0, high=1), [Line([0, 5, 10], [0, 0.5, 1], "#123456")])
    way = next(way for way in paths(panel) if "L" in way)
    points = np.array(re.findall(r"[ML](\S+?) ([\d.]+)", way), float)
    (left, bottom), (right, top) = points[0], points[2]
    assert np.allclose(points[1], ((left + right) / 2, (bottom + top) / 2), atol=0.1)
    assert left == 0 and top == 0 and right > 300 and bottom > 200


def test_a_logarithmic_axis_has_equal_steps_for_equal_factors():
    panel = Panel("", Axis(low=1, high=100, log=True), Axis(low=0, high=1), [Line([1, 10, 100], [0, 0, 0], "#123456")])
    way = next(way for way in paths(panel) if "L" in way)
    first, second, third = (float(x) for x in re.findall(r"[ML](\S+?) ", way))
    assert second - first == pytest.approx(third - second, abs=0.2)
    assert "10⁰" in words(panel) and "10²" in words(panel)


def test_a_value_that_is_none_leaves_a_gap():
    panel = Panel("", Axis(), Axis(), [Line([0, 1, 2, 3], [0, math.nan, 1, 2], "#123456", marker="o")])
    line, dots = (way for way in paths(panel) if "L" in way or "a" in way)
    assert line.count("M") == 2 and line.count("L") == 1 and dots.count("M") == 3


def test_every_mark_is_drawn():
    marks = [
        Line([0, 1], [0, 1], "#000001", "--", "s", label="line"),
        Whiskers([0.5], [0.5], [0.4], [0.7], "#000002", "D", "whiskers"),
        Band([0, 1], [0, 0.2], [0.1, 0.4], "#000003"),
        Rule(0.3, "#000004", label="rule"),
        Rule(0.3, "#000005", upright=True),
        Box(0.1, 0.2, "#000006", 0.5, label="box"),
        Box(0.6, 0.7, "#000007", 0.5, 0.2, 0.4),
        Cells(np.array([[1, 0, 40], [3, 3, 0]]), 0.0, 0.2, ["#000008", "#000009"]),
        Note(0.5, 0.5, "note", "#00000a"),
    ]
    panel = Panel("title", Axis("x"), Axis("y"), marks, columns=2)
    text = figure_svg(Figure("", "", "", [panel], [""]))
    assert all(f"#00000{digit}" in text for digit in "123456789a")
    assert {"title", "x", "y", "note", "line", "whiskers", "rule", "box"} <= set(words(panel))
    cells = [way for way in paths(panel) if "v1h" in way]
    # Cells of one shade that touch are one rectangle; the shade is by the logarithm of the count.
    assert cells == ["M0 0h1v1h-1zM0 1h2v1h-2z", "M2 0h1v1h-1z"]


@pytest.mark.parametrize("marker", sorted({look[1] for look in LOOKS.values()} | {"x"}))
def test_marks_of_methods_differ(marker):
    others = {look[1] for look in LOOKS.values()} - {marker}
    mine = sample_svg(Line([], [], "#000000", "", marker))
    assert all(mine != sample_svg(Line([], [], "#000000", "", other)) for other in others)


def test_names_stay_text():
    panel = Panel("<script>", Axis("a & b"), Axis('"'), [Line([0, 1], [0, 1], "#000", label="<b>")], columns=1)
    assert {"<script>", "a & b", '"', "<b>"} <= set(words(panel))
    assert "<script" not in panel_svg(panel, '"><script>alert(1)</script>', panel_size(2))


def test_ticks_are_round_and_few():
    found = ["−0.010", "−0.005", "0.000", "0.005", "0.010", "0.015", "0.020"]
    assert [text for _, text in round_ticks(-0.012, 0.021)] == found
    assert [value for value, _ in round_ticks(0, 1)] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert round_ticks(1, 0) == round_ticks(0, 1)
    for low, high in ((0.1, 0.11), (-3e-9, 8e-9), (1e5, 1e8), (-7, 7)):
        found = round_ticks(low, high)
        assert 3 <= len(found) <= 9 and all(low <= value <= high * (1 + 1e-9) for value, _ in found)
        assert len({text for _, text in found}) == len(found)
    assert [text for _, text in decades(0.5, 2e5)] == ["10⁰", "10¹", "10²", "10³", "10⁴", "10⁵"]
    assert decades(2.0, 6.0)[0][1] == "2.0" and len(decades(1e-30, 1e30)) <= 8


def test_a_panel_without_data_is_still_a_panel():
    assert words(Panel("nothing", Axis("x"), Axis("y", log=True), []))
    assert words(Panel("one point", Axis("x"), Axis("y"), [Line([3], [0], "#000")]))


@pytest.mark.parametrize("experiment", ["regimes", "loo", "gamma"])
def test_text_is_readable_where_panels_stand_side_by_side_on_the_page(subject, experiment):
    """It is ten pixels high or more, with three panels in a row and with two, and no title leaves its panel."""
    figure = FIGURES[experiment](subject.parts[experiment])
    assert figure.three == (experiment != "gamma")
    css = Path(sections.__file__).with_name("page.css").read_text()
    rule = re.search(r"^main.* max-width: ([\d.]+)rem;.* padding: 0 ([\d.]+)rem", css, re.M)
    page, padding = map(float, rule.groups())
    rem, across = 16, 3 if figure.three else 2
    shown = (page - 2 * padding - (across - 1)) * rem / across  # a gap of 1rem between panels
    text = sections.figure_html(figure)
    (width,) = {float(width) for width in re.findall(r'viewBox="0 0 (\d+) \d+"', text)}
    assert min(float(size) for size in re.findall(r'<text[^>]* font-size="([\d.]+)"', text)) * shown / width > 10
    for left, size, title in re.findall(r'<text x="([\d.]+)"[^>]* font-size="([\d.]+)"[^>]*600">([^<]+)<', text):
        assert float(left) + 0.65 * float(size) * len(title) < width, "bold letters are about that wide"


def test_files_have_the_panels_of_the_page(subject, tmp_path):
    figure = FIGURES["regimes"](subject.parts["regimes"])
    wide, high = panel_size(3)
    assert f'viewBox="0 0 {3 * wide} {high}"' in figure_svg(figure)
    assert draw(figure.panels).get_size_inches().tolist() == [3 * wide / 100, high / 100]
