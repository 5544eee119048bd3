"""The page: the map drawn with Bokeh, one HTML file that needs no network, and the table behind it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bokeh import models as bk
from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.events import DocumentReady
from bokeh.palettes import Category20b, Category20c, cividis, plasma, viridis
from bokeh.plotting import figure
from bokeh.resources import INLINE
from bokeh.transform import transform
from jinja2 import Environment, Template
from matplotlib.axes import Axes
from numpy.typing import NDArray
from PIL import Image

from asbc.dimension import LARGEST, SMALLEST
from asbc.explore.findings import MAX_OUTLIERS, MAX_SUSPECTS, Findings
from asbc.progress import Progress
from asbc.report.figures import BLUE, RED, Panel, panel_svg
from asbc.storage import write_atomic, write_table
from asbc.version import __version__

GENERATOR = "asbc-explore"
MAX_TEXT_BYTES = 8_000_000  # of all texts on a page; above, each is cut
MAX_TEXT = 300  # characters of a text on a page
MAX_COMPONENTS, MAX_PAIRS = 10, 30  # components and pairs of classes that are listed
BINS = 48
UNKNOWN = "#c9d1d9"  # colour of nodes without a value
# Okabe and Ito's colours and a few more: everybody can distinguish the first classes. Bokeh's follow.
FIRST = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b4fa3", "#8c6d31", "#3f4a52", "#b0a800"]
MAX_LEGEND = 24  # entries of a legend
MAX_LABEL_COLORS = 20  # with more classes, the map is coloured by cluster first
NAME_SIZE = 12  # pixels of the names of clusters
PICTURE_SIZE = 40  # pixels of the pictures that represent clusters
SCALE_QUANTILES = (0.01, 0.99)  # ends of a colour scale, so that single nodes do not stretch it
THUMBNAIL_SIDES = (96, 72, 56, 40, 32)  # pixels of the longer side; the largest that fits is taken
MAX_THUMBNAIL_BYTES = 15_000_000  # of all thumbnails of a page
BYTES_PER_PIXEL = 0.25  # of a thumbnail, roughly
WEBP_QUALITY = 60
WEBGL_FROM = 10_000  # nodes from which the graphics card draws
# Columns of the table of chosen nodes and of its CSV file, by key: title and digits, None for words.
COLUMNS: dict[str, tuple[str, int | None]] = {
    "node": ("id", None),
    "label": ("label", None),
    "cluster": ("cluster", 0),
    "cluster_name": ("cluster name", None),
    "suggested": ("suggested", None),
    "suspicion": ("suspicion", 2),
    "dimension": ("dimension", 1),
    "sigma": ("sigma", 3),
    "density": ("density", 2),
    "component": ("component", 0),
    "outlier_score": ("outlier score", 2),
    "nearest_ratio": ("nearest ratio", 2),
    "image_name": ("image", None),
    "text": ("text", None),
    "x": ("x", 2),
    "y": ("y", 2),
}
TEMPLATES = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
TEMPLATES.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # unsorted: Bokeh relies on the order
TEMPLATES.filters["commas"] = "{:,}".format
IN_TOOLTIP = ("label", "cluster_name", "suggested", "suspicion", "image_name", "dimension", "sigma", "density")


def write_page(
    found: Findings,
    out: str | os.PathLike = "explore.html",
    *,
    title: str = "Vectors",
    thumbnails: Mapping[int, str] | None = None,
) -> Path:
    """Write the findings as one HTML page, and their numbers as a Parquet file next to it.

    Parameters
    ----------
    found : Findings
        From :func:`explore`.
    out : str or path, default="explore.html"
        The page; the table has the same name with ``.parquet``. Files that `asbc-explore` did not write are not
        overwritten.
    title : str, default="Vectors"
        Title of the page.
    thumbnails : dict of int to str or None, default=None
        Small images of nodes, WebP in base 64; "" for an image that could not be read.

    Returns
    -------
    Path
        The page.

    See Also
    --------
    explore : compute the findings.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from asbc.explore import explore, write_page
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_page(explore(np.random.default_rng(0).normal(size=(60, 5))), f"{folder}/explore.html")
    ...     page.name, page.with_suffix(".parquet").is_file()
    ('explore.html', True)
    """
    page, table = check_targets(out)
    write_atomic(page, render(found, title, thumbnails))
    write_table(table, found.nodes)
    return page


def check_targets(out: str | os.PathLike) -> tuple[Path, Path]:
    """Return the paths of the page and the table, after a check that no other file would be overwritten."""
    page = Path(out)
    table = page.with_suffix(".parquet")
    if page.suffix not in (".html", ".htm"):
        raise ValueError(f"out must be a file that ends in .html; got {str(page)!r}.")
    if page.is_dir() or table.is_dir():
        raise ValueError(f"{page}: a folder; give another name.")
    own = page.exists() and f'content="{GENERATOR}"'.encode() in page.read_bytes()[:4096]
    for path in (page, table):
        if path.exists() and not own:
            raise ValueError(f"{path}: not written by {GENERATOR}, so it is not overwritten; give another name.")
    return page, table


def render(found: Findings, title: str, thumbnails: Mapping[int, str] | None = None) -> str:
    """Return the page as HTML. The parameters are those of :func:`write_page`."""
    nodes, shown = found.nodes, found.nodes.iloc[found.shown]
    ways: list[Coloring] = colorings(found)
    notes: list[str] = []
    numbers = {
        key: shown[key].to_numpy(np.float32 if digits else np.int32)
        for key, (_, digits) in COLUMNS.items()
        if digits is not None and key in shown
    }
    numbers |= {"node": found.shown.astype(np.int32), "component": numbers["component"] + 1}
    source = bk.ColumnDataSource(numbers | {way.field: way.values for way in ways if way.legend}, name="nodes")
    words: dict[str, Any] = {}
    if "text" in shown:
        most = min(MAX_TEXT, max(20, MAX_TEXT_BYTES // len(shown)))
        cut = shown["text"].str.len() > most
        words["text"] = shown["text"].where(~cut, shown["text"].str[: most - 1].str.rstrip() + "…").tolist()
        if cut.any():
            notes.append(f"{cut.sum():,} texts are cut to {most} characters on this page; the table has all of them.")
    if "image" in shown:
        words["image_name"] = shown["image"].tolist()
    if thumbnails is not None:
        words["picture"] = [thumbnails.get(node, "") for node in found.shown.tolist()]
        if missing := words["picture"].count(""):
            notes.append(f"{missing:,} of {len(shown):,} nodes have no image here: unreadable, or too many for a page.")
    # Columns of classes are sent as their names and each node's class code, -1 for none.
    coded = {key: pd.factorize(shown[key]) for key in ("label", "suggested", "cluster_name") if key in shown}
    plot, parts = draw_map(source, ways[0], {*numbers, *words, *coded})
    parts = {"nodes": source, "plot": plot, **parts}
    document = Document()
    document.add_root(plot)
    document.js_on_event(DocumentReady, bk.CustomJS(args=parts, code=f"window.exploreReady({{{', '.join(parts)}}});"))
    histograms = {key: _histogram(key, nodes[key].to_numpy(float), *rest) for key, *rest in _histograms(found)}
    component, groups = nodes["component"].to_numpy(), found.about.duplicates.groups
    data = {
        "span": float(max(np.ptp(numbers["x"]), np.ptp(numbers["y"]))) or 1.0,
        "columns": [{"key": key, "title": name, "digits": digits} for key, (name, digits) in COLUMNS.items()],
        "ways": {
            way.key: {name: getattr(way, name) for name in ("field", "palette", "low", "high", "scale")} for way in ways
        },
        "names": cluster_names(found, thumbnails is not None and not {"text", "label"} & set(nodes)),
        "font": f"{NAME_SIZE}px helvetica",
        "picture_size": PICTURE_SIZE,
        "words": words,
        "classes": {key: {"names": names.tolist(), "codes": codes.tolist()} for key, (codes, names) in coded.items()},
        "review": _review(found),
        "histograms": {key: {"edges": one["edges"], "counts": one["counts"]} for key, one in histograms.items()},
    }
    return file_html(
        document,
        INLINE,
        title,
        template=_template("page.html"),
        template_variables={
            "generator": GENERATOR,
            "version": __version__,
            "css": (files("asbc.report") / "page.css").read_text(encoding="utf-8"),
            "script": (files("asbc.explore") / "page.js").read_text(encoding="utf-8"),
            "without_addresses": without_addresses,
            "embed": lambda root: f'<div id="{root.elementid}" style="display: contents"></div>',
            "found": found,
            "about": found.about,
            "data": data,
            "ways": ways,
            "histograms": histograms,
            "notes": notes,
            "limits": (int(SMALLEST), int(LARGEST)),
            "MAX_OUTLIERS": MAX_OUTLIERS,
            "MAX_SUSPECTS": MAX_SUSPECTS,
            "searched": ["id", *(name for name in ("label", "text", "image") if name in nodes)],
            "labels": nodes["label"].tolist() if "label" in nodes else None,
            "texts": nodes["text"].tolist() if "text" in nodes else None,
            "images": thumbnails or {},
            "palette": class_palette(0 if found.clusters is None else len(found.clusters.table)),
            "grouped": np.concatenate(groups) if groups else (),
            "components": [np.flatnonzero(component == c) for c in range(min(MAX_COMPONENTS, component.max() + 1))],
            "simulation": None if found.simulation is None else _simulation(found.simulation),
            **_class_lists(found),
        },
    )


def _template(name: str) -> Template:
    return TEMPLATES.from_string((files("asbc.explore") / name).read_text(encoding="utf-8"))


def without_addresses(script: str) -> str:
    """Remove remote addresses from Bokeh's script, such as that of its MathJax loader. XML namespaces stay."""
    return re.sub(r"https?://(?!www\.w3\.org/)[^\s\"'`<>\\)$]+", "", script)


def _review(found: Findings) -> dict[str, Any] | None:
    """Return what the review of doubtful labels needs: nodes, their supporters, classes and earlier decisions."""
    nodes, issues = found.suspects[:MAX_SUSPECTS], found.issues
    if issues is None:
        return None
    decisions: Any = {} if found.corrections is None else found.corrections.set_index("node").to_dict("index")
    classes = found.nodes["label"].dropna().unique().tolist()
    return {
        "key": hashlib.sha256(json.dumps([classes, issues.given.astype(str).tolist()]).encode()).hexdigest()[:16],
        "nodes": nodes.tolist(),
        "supporters": [row[row >= 0].tolist() for row in issues.supporters[nodes]],
        "classes": sorted(classes),
        "decisions": decisions,
    }


def _class_lists(found: Findings) -> dict[str, Any]:
    """Return pairs of classes that are confused, the accuracy of each class, and the number of classes of one node."""
    if found.classes is None:
        return {}
    suspects = found.nodes.loc[found.suspects, ["label", "suggested"]]
    pairs: Any = found.classes.pairs[:MAX_PAIRS].to_dict("records")
    for pair in pairs:
        ends = pair["one"], pair["other"]
        pair["nodes"] = suspects.index[suspects["label"].isin(ends) & suspects["suggested"].isin(ends)]
    classes = found.classes.classes
    worst_first = classes.sort_values(["accuracy", "size"], ascending=[True, False], kind="stable")
    return {"pairs": pairs, "per_class": worst_first.to_dict("records"), "single": int((classes["size"] == 1).sum())}


def _histograms(found: Findings) -> Iterator[Any]:
    """Yield the histograms: column, title of the axis, threshold, and where the axis ends at the latest."""
    about = found.about
    far = min(LARGEST, max(float(np.quantile(about.dimension, 0.995)), 2.0))
    yield "dimension", "dimension", None, far
    yield "outlier_score", "distance, relative to nearby nodes", about.outlier_threshold, None
    yield "nearest_ratio", "nearest neighbour, relative to scale", about.duplicates.threshold, 1.0
    if found.issues is not None:
        yield "suspicion", "suspicion", 0.5, 1.0


def _histogram(key: str, values: NDArray, label: str, limit: float | None, upper: float | None) -> dict[str, Any]:
    """Draw a histogram; values beyond `upper` are counted in the last bar. The script of the page finds bars by id."""
    limits = [limit] if limit is not None and np.isfinite(limit) else []
    finite = np.append(values[np.isfinite(values)], limits or [0.0])
    low, high = finite.min(), max([np.quantile(finite, 0.999), *limits])
    high = min(high, upper) if upper is not None else high
    edges = np.linspace(low, high + 0.02 * ((high - low) or 1.0), BINS + 1)
    counts, _ = np.histogram(np.clip(values[~np.isnan(values)], edges[0], edges[-1]), edges)

    def paint(axes: Axes) -> None:
        axes.patch.set_gid(f"keep-area-{key}")
        bars = axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color="#b6c2cd", edgecolor="white", lw=0.5)
        for number, bar in enumerate(bars):
            bar.set_gid(f"keep-bar-{key}-{number}")
        for place in limits:
            axes.axvline(place, color=RED, lw=1.6, ls=(0, (4, 2)))
        axes.set(xlabel=label, xlim=(edges[0], edges[-1]), ylim=(0, max(1, counts.max()) * 1.08))
        axes.grid(visible=False, axis="x")

    svg = panel_svg(Panel("", paint, f"Histogram: {label}"), size=(3.6, 2.1), salt=key)
    return {"edges": edges.tolist(), "counts": counts.tolist(), "svg": svg}


def _simulation(table: pd.DataFrame) -> str:
    """Draw how many mistakes a review finds."""

    def paint(axes: Axes) -> None:
        for kind, name, color in (("near", "moved to a near class", RED), ("uniform", "moved to any class", BLUE)):
            part = table[table["kind"] == kind]
            axes.fill_between(part["reviewed"], part["low"], part["high"], color=color, alpha=0.15, lw=0)
            axes.plot(part["reviewed"], part["found"], color=color, marker="o", ms=3.5, label=name)
        axes.set(xlabel="labels reviewed, the most suspicious first", ylabel="share of mistakes found", ylim=(0, 1.02))
        axes.set_xlim(left=0)
        axes.legend(frameon=False, loc="lower right", fontsize=8)

    alt = "Share of moved labels that a review finds, by the number of labels reviewed"
    return panel_svg(Panel("", paint, alt), size=(4.6, 2.6), salt="simulation")


@dataclass(frozen=True)
class Coloring:
    """One way to colour the map.

    Attributes
    ----------
    key, title, note : str
        Column, name and explanation.
    values : (m,) array
        Of the nodes on the map; NaN for none.
    palette : list of str
        Colours from `low` to `high`.
    low, high : float
    legend : list of (str, int)
        Name and number of nodes of the largest classes, in the order of the palette; clusters have a table instead.
    scale : bool
        Whether colours are those of a scale.
    """

    key: str
    title: str
    note: str
    values: Any
    palette: list[str]
    low: float
    high: float
    legend: list[tuple[str, int]]
    scale: bool = False

    @property
    def field(self) -> str:
        """Column of the page that holds the values; class codes have their own."""
        return f"number_of_{self.key}" if self.legend else self.key


def class_palette(count: int) -> list[str]:
    """Return `count` colours: ten that everybody can distinguish, then others, again from the first if need be."""
    return list(islice(cycle([*FIRST, *Category20b[20], *Category20c[16]]), count))


def colorings(found: Findings) -> list[Coloring]:
    """Return the ways to colour the map, the default one first."""
    nodes = found.nodes.iloc[found.shown]
    ways = []
    if "label" in nodes:
        ways.append(_classes(nodes["label"], "label", "Label", "label of each node"))
    if found.clusters is not None:
        many = "label" not in nodes or found.nodes["label"].nunique() > MAX_LABEL_COLORS
        count, note = len(found.clusters.table), "listed below, the largest first"
        way = Coloring("cluster", "Cluster", note, nodes["cluster"], class_palette(count), -0.5, count - 0.5, [])
        ways.insert(0 if many else 1, way)
    doubt = "0 if only the label has support, 1 if only another class has; above 0.5 the label is doubtful"
    for key, title, note, palette in (
        ("dimension", "Local dimension", "intrinsic dimension around a node", viridis(256)),
        ("sigma", "Bandwidth σ", "width of the kernel chosen for a node", viridis(256)),
        ("density", "Density", "median distance to the last neighbour, divided by the node's own", cividis(256)),
        ("suspicion", "Label suspicion", doubt, plasma(256)[::-1]),
    ):
        if key in nodes:
            usable = nodes[key][np.isfinite(nodes[key])]
            free = key != "suspicion" and len(usable)
            low, high = np.quantile(usable, SCALE_QUANTILES).tolist() if free else (0.0, 1.0)
            ends = (low, high) if high > low else (low - 0.5, low + 0.5)
            ways.append(Coloring(key, title, note, nodes[key], list(palette), *ends, [], scale=True))
    note = "connected components of the graph; component 1 is the largest"
    return [*ways, _classes("component " + (nodes["component"] + 1).astype(str), "component", "Component", note)]


def _classes(names: pd.Series, key: str, title: str, note: str) -> Coloring:
    # The most frequent classes get the clearest colours. Among equals, "class 2" comes before "class 10".
    counts = names.value_counts()
    order = sorted(counts.index, key=lambda name: (-counts[name], len(name), name))
    codes = pd.Categorical(names, categories=order).codes
    values, palette = np.where(codes < 0, np.nan, codes).astype(np.float32), class_palette(len(order)) or [UNKNOWN]
    legend = [(name, int(counts[name])) for name in order[:MAX_LEGEND]]
    return Coloring(key, title, note, values, palette, -0.5, len(palette) - 0.5, legend)


def cluster_names(found: Findings, pictures: bool) -> list[list[dict[str, Any]]]:
    """Return what is written on the map, by level from coarse to fine: the row of each cluster's most central node.

    With it goes the cluster's name or, with `pictures`, the row whose picture is drawn instead.
    """
    levels = []
    clusters = found.clusters
    for names, examples in zip(clusters.names, clusters.examples, strict=True) if clusters else ():
        rows = np.searchsorted(found.shown, examples[:, 0]).tolist()
        kind, values = ("picture", rows) if pictures else ("text", names)
        levels.append([{"row": row, kind: value} for row, value in zip(rows, values, strict=True)])
    return levels


def draw_map(source: bk.ColumnDataSource, first: Coloring, columns: set[str]) -> tuple[Any, dict[str, Any]]:
    """Return the map as a Bokeh figure, and the models in it that the script of the page uses.

    Parameters
    ----------
    source : ColumnDataSource
        ``x``, ``y`` and a column for every colouring.
    first : Coloring
        The one that is shown.
    columns : set of str
        Columns that the tooltip may show.
    """
    n = len(source.data["x"])
    plot = figure(
        name="map",
        sizing_mode="stretch_both",
        min_height=320,
        min_border=0,
        match_aspect=True,
        toolbar_location="above",
        output_backend="webgl" if n >= WEBGL_FROM else "canvas",
        tools="pan,wheel_zoom,reset",
        active_drag="pan",
        active_scroll="wheel_zoom",
        outline_line_color=None,
    )
    plot.toolbar.logo = None
    plot.axis.visible = plot.grid.visible = False
    mapper = bk.LinearColorMapper(palette=first.palette, low=first.low, high=first.high, nan_color=UNKNOWN)
    points = plot.scatter(
        "x",
        "y",
        source=source,
        size=float(np.clip(260.0 / np.sqrt(max(n, 1)), 2.2, 9.0)),
        line_color=None,
        fill_color=transform(first.field, mapper),
        fill_alpha=0.82,
        selection_fill_alpha=1.0,
        nonselection_fill_color="#d5dbe1",
        nonselection_fill_alpha=0.35,
        name="points",
    )
    plot.x_range.renderers = plot.y_range.renderers = [points]
    hover = bk.HoverTool(
        renderers=[points],
        tooltips=_tooltip(columns),
        attachment="horizontal",
        point_policy="follow_mouse",
        limit=1,
        # Of nodes on top of each other, only the nearest one is shown.
        filters={"@node": bk.CustomJS(code="return window.exploreNearest(cb_data);")},
    )
    lasso = bk.LassoSelectTool(continuous=False, renderers=[points])
    plot.add_tools(lasso, bk.BoxSelectTool(renderers=[points]), bk.TapTool(renderers=[points]), hover)
    names = bk.ColumnDataSource({"x": [], "y": [], "text": []}, name="names")
    plot.text(
        source=names,
        text_align="center",
        text_baseline="middle",
        text_font_size=f"{NAME_SIZE}px",
        background_fill_color="#ffffff",
        background_fill_alpha=0.65,
        padding=2,
        level="overlay",
    )
    pictures = bk.ColumnDataSource({"x": [], "y": [], "url": []}, name="pictures")
    side = {"w": PICTURE_SIZE, "h": PICTURE_SIZE, "w_units": "screen", "h_units": "screen"}
    plot.image_url(source=pictures, anchor="center", level="overlay", **side)
    bar = bk.ColorBar(color_mapper=mapper, visible=first.scale, orientation="horizontal", height=8, padding=4)
    plot.add_layout(bar, "below")
    return plot, {"points": points, "mapper": mapper, "bar": bar, "names": names, "pictures": pictures}


def _tooltip(columns: set[str]) -> str:
    """Return the template of the tooltip. Bokeh escapes every ``@`` value."""
    shown = [(key, *COLUMNS[key]) for key in IN_TOOLTIP if key in columns]
    lines = [(key, title, "" if digits is None else f"{{0.{'0' * digits}}}") for key, title, digits in shown]
    return _template("tooltip.html").render(lines=lines, columns=columns)


def make_thumbnails(paths: Sequence[Path], nodes: NDArray[np.int64], *, progress: bool = False) -> dict[int, str]:
    """Return small images of nodes, WebP in base 64, "" if an image cannot be read.

    If they take too many bytes, only a random part of the nodes gets one.

    Parameters
    ----------
    paths : sequence of n paths
        The image of every node.
    nodes : (m,) int64
        Nodes on the map.
    progress : bool, default=False
        Whether to show a bar.
    """
    room = MAX_THUMBNAIL_BYTES / (len(nodes) * BYTES_PER_PIXEL)
    side = next((side for side in THUMBNAIL_SIDES if side**2 <= room), THUMBNAIL_SIDES[-1])
    images, size = {}, 0
    with Progress(progress).step("images", len(nodes), unit="images") as advance:
        for node in np.random.default_rng(0).permutation(nodes).tolist():
            images[node] = _thumbnail(paths[node], side)
            size += len(images[node])
            advance()
            if size > MAX_THUMBNAIL_BYTES:
                break
    return images


def _thumbnail(path: Path, side: int) -> str:
    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * side, 2 * side))  # reads JPEG files at a fraction of their size
            small = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
        small.thumbnail((side, side))
        buffer = io.BytesIO()
        small.save(buffer, "WEBP", quality=WEBP_QUALITY, method=4)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow raises for bad files
        return ""
    return base64.b64encode(buffer.getvalue()).decode()
