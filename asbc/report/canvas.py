"""From panels to pictures: a figure is drawn once, for the page and for the files beside it."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asbc.files import write_whole
from asbc.report.style import INK, LOOKS, plain_label, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Panel = Callable[["Axes"], None]
WIDTH, HEIGHT = 5.0, 3.7  # of a panel, in inches: readable on a telephone, and two fit a page
# Left, bottom, width and height of the axes in a panel. Fixed, since matplotlib's own layout takes as long as drawing;
# what needs more room, such as a legend below, says so (`marks.make_room`).
FRAME = (0.155, 0.165, 0.815, 0.725)
KEY = 0.45  # height of the line that says which mark is which method


@dataclass(frozen=True)
class Figure:
    """A figure of the report.

    Attributes
    ----------
    name : str
        Of its files.
    title, caption : str
    panels : sequence of callables of matplotlib axes
    alt : sequence of str
        What each panel shows, in words, for those who cannot see it.
    columns : int
        Panels side by side in the files; 0 for all of them. On the page they flow.
    key : sequence of str
        Methods that one legend for all panels explains; empty where panels have legends of their own.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    alt: Sequence[str]
    columns: int = 0
    key: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Pictures:
    """A figure, drawn.

    Attributes
    ----------
    whole : bytes
        All panels as one PNG.
    panels : list of bytes
        Each panel as PNG.
    pdf : bytes or None
        All panels as one PDF, where that was asked for.
    """

    whole: bytes
    panels: list[bytes]
    pdf: bytes | None = None


def draw(panels: Sequence[Panel], columns: int = 0, key: Sequence[str] = ()) -> Canvas:
    """Panels on one matplotlib figure, row by row, each in a part of its own."""
    from matplotlib.figure import Figure as Canvas

    across = columns or len(panels)
    down = -(-len(panels) // across)
    with style():
        size = (WIDTH * across, HEIGHT * down + (KEY if key else 0))
        canvas = Canvas(figsize=size)
        upper, *lower = canvas.subfigures(
            2 if key else 1, 1, squeeze=False, height_ratios=[HEIGHT * down, KEY] if key else None
        )[:, 0]
        cells = upper.subfigures(down, across, squeeze=False).ravel()
        for cell, panel in zip(cells, panels, strict=False):
            panel(cell.add_axes(FRAME))
        for strip in lower:
            strip.legend(handles=[_mark(method) for method in key], loc="center", ncols=len(key))
    return canvas


def png(panels: Sequence[Panel], dpi: int = 160) -> bytes:
    """Panels as one PNG image; the same bytes for the same data."""
    with style():
        return _encoded(_pixels(draw(panels), dpi))


def pictures(figure: Figure, *, pdf: bool = False, dpi: int = 160) -> Pictures:
    """A figure in all forms that a report needs; the same bytes for the same data."""
    sheet = io.BytesIO()
    with style():
        canvas = draw(figure.panels, figure.columns, figure.key)
        image = _pixels(canvas, dpi)
        if pdf:
            canvas.savefig(sheet, format="pdf", metadata={"CreationDate": None, "Creator": "asbc"})
        cells = [axes.figure.bbox.bounds for axes in canvas.axes]
        height, scale = canvas.bbox.height, len(image) / canvas.bbox.height
    crops = []
    for x, y, w, h in cells:
        left, right, top, bottom = (round(v * scale) for v in (x, x + w, height - y - h, height - y))
        crops.append(_encoded(image[top:bottom, left:right]))
    whole = crops[0] if len(crops) == 1 and not figure.key else _encoded(image)
    return Pictures(whole, crops, sheet.getvalue() if pdf else None)


def write(drawn: Pictures, name: str, folder: Path) -> list[Path]:
    """Write `<name>.png`, and `<name>.pdf` where there is one, each whole or not at all."""
    paths = []
    for kind, content in (("png", drawn.whole), ("pdf", drawn.pdf)):
        if content is not None:
            path = folder / f"{name}.{kind}"
            write_whole(path, lambda p, c=content: p.write_bytes(c))  # type: ignore[misc]
            paths.append(path)
    return paths


def save(figure: Figure, folder: Path) -> list[Path]:
    """Draw a figure, and write `<name>.png` and `<name>.pdf`."""
    return write(pictures(figure, pdf=True), figure.name, folder)


def _mark(method: str):
    from matplotlib.lines import Line2D

    color, marker, dash = LOOKS.get(method, (INK, "x", "-"))
    return Line2D([], [], color=color, marker=marker, ls=dash, label=plain_label(method))


def _pixels(canvas: Canvas, dpi: int) -> NDArray[np.uint8]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas.set_dpi(dpi)
    agg = FigureCanvasAgg(canvas)
    agg.draw()
    return np.asarray(agg.buffer_rgba())[..., :3].copy()


def _encoded(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    # Few colours: 256 of them are enough, and the page is a third of the size.
    image = Image.fromarray(pixels).quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    image.save(buffer, format="png")
    return buffer.getvalue()
