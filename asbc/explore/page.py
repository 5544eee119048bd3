"""One HTML page that needs no network, and the table behind it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from bokeh.document import Document
from bokeh.embed import file_html, json_item
from bokeh.events import DocumentReady
from bokeh.models import ColumnDataSource
from bokeh.resources import INLINE
from jinja2 import Environment

from asbc.dimension import LARGEST
from asbc.explore.chart import call_page, draw_histogram, draw_map
from asbc.explore.colors import Coloring, colorings
from asbc.explore.findings import Findings
from asbc.explore.sections import Sections, counted
from asbc.explore.thumbnails import Thumbnails
from asbc.files import whole_file, write_whole
from asbc.version import __version__

GENERATOR = "asbc-explore"
TEXT_BYTES = 8_000_000  # of all texts on a page; above, each is cut
TEXT_MOST = 300  # characters of a text on a page at most
# Columns of the table of chosen nodes and of its CSV file: key, title, digits that the table shows.
COLUMNS: list[tuple[str, str, int | None]] = [
    ("node", "id", None),
    ("label", "label", None),
    ("suggested", "suggested", None),
    ("suspicion", "suspicion", 2),
    ("dimension", "dimension", 1),
    ("sigma", "sigma", 3),
    ("density", "density", 2),
    ("component", "piece", 0),
    ("outlier_score", "outlier score", 2),
    ("nearest_ratio", "nearest ratio", 2),
    ("image_name", "image", None),
    ("text", "text", None),
    ("x", "x", 2),
    ("y", "y", 2),
]


@dataclass(frozen=True)
class Panel:
    """A histogram of the page: the figure it embeds, and what stands above it."""

    key: str
    title: str
    note: str


def write_page(
    found: Findings,
    out: str | os.PathLike = "explore.html",
    *,
    name: str = "vectors",
    thumbnails: Thumbnails | None = None,
    method: Sequence[str] = (),
) -> Path:
    """Write what was found as one HTML page, and its numbers as a Parquet file beside it.

    Parameters
    ----------
    found : Findings
        From :func:`explore`.
    out : str or path, default="explore.html"
        The page; the table has the same name with ``.parquet``. Both appear whole or not at all, and files that are
        not from here are not overwritten.
    name : str, default="vectors"
        What the vectors are called on the page.
    thumbnails : Thumbnails or None, default=None
        Small pictures of the nodes.
    method : sequence of str, default=()
        Lines that say how the graph was made.

    Returns
    -------
    Path
        The page.

    See Also
    --------
    explore : finds it.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from asbc.explore import explore, write_page
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_page(explore(np.random.default_rng(0).normal(size=(60, 5))), f"{folder}/explore.html")
    ...     page.name, page.with_suffix(".parquet").is_file()
    ('explore.html', True)
    """
    page, table = target_files(out)
    text = render(found, name, thumbnails, method)
    with whole_file(table) as file:
        _write_table(found, file)
    write_whole(page, lambda path: path.write_text(text, encoding="utf-8"))
    return page


def target_files(out: str | os.PathLike) -> tuple[Path, Path]:
    """The page and the table that `out` names, after a check that nothing else would be overwritten."""
    page = Path(out)
    table = page.with_suffix(".parquet")
    if page.suffix not in (".html", ".htm"):
        raise ValueError(f"out must be a file that ends in .html; got {str(page)!r}.")
    if page.is_dir() or table.is_dir():
        raise ValueError(f"{page}: a folder; give another name.")
    if page.exists() and f'content="{GENERATOR}"' not in _beginning(page):
        raise ValueError(f"{page}: not made by {GENERATOR}, and left alone; give another name.")
    if table.exists() and not _our_table(table):
        raise ValueError(f"{table}: not made by {GENERATOR}, and left alone; give another name.")
    return page, table


def _beginning(page: Path) -> str:
    with page.open("rb") as file:
        return file.read(4096).decode("utf-8", "replace")


def _our_table(path: Path) -> bool:
    try:
        return GENERATOR.encode() in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def _write_table(found: Findings, file: Any) -> None:
    table = pa.Table.from_pandas(found.nodes, preserve_index=False)
    about = found.about
    whole = {
        "version": __version__,
        "effective_rank": about.effective_rank,
        "global_dimension": about.global_dimension,
        "hubness": about.hubness,
        "outlier_threshold": about.outlier_threshold if np.isfinite(about.outlier_threshold) else None,
        "duplicate_threshold": about.duplicates.threshold,
        "loo_accuracy": about.loo_accuracy,
    }
    metadata = {**(table.schema.metadata or {}), GENERATOR.encode(): json.dumps(whole).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), file, write_page_checksum=True)


def render(found: Findings, name: str, thumbnails: Thumbnails | None = None, method: Sequence[str] = ()) -> str:
    """The page as HTML.

    Parameters
    ----------
    found : Findings
    name : str
        What the vectors are called.
    thumbnails : Thumbnails or None, default=None
        Small pictures of the nodes.
    method : sequence of str, default=()
        Lines that say how the graph was made.

    Returns
    -------
    str
    """
    ways = colorings(found)
    notes: list[str] = []
    source = ColumnDataSource(_numbers(found, ways), name="nodes")
    words, classes = _words(found, thumbnails, notes), _classes(found)
    plot, models = draw_map(source, ways, tooltip({*source.data, *words, *classes}))
    document = Document()
    document.add_root(plot)
    document.js_on_event(DocumentReady, call_page({"nodes": source, **models}))
    histograms, panels = [], []
    for key, title, note, values, label, limits, upper in _panels(found):
        histograms.append({"key": key, "figure": json_item(draw_histogram(key, values, label, limits, upper=upper))})
        panels.append(Panel(key, title, note))
    places = np.stack([source.data["x"], source.data["y"]])
    about = {
        "span": float((places.max(axis=1) - places.min(axis=1)).max()) or 1.0,
        "columns": [
            {"key": key, "title": title, **({} if digits is None else {"digits": digits})}
            for key, title, digits in COLUMNS
        ],
        "ways": {
            way.key: {
                "field": way.field,
                "palette": way.palette,
                "low": way.low,
                "high": way.high,
                "scale": not way.legend,
            }
            for way in ways
        },
        "words": words,
        "classes": classes,
        "histograms": histograms,
    }
    pictures = set() if thumbnails is None else {node for node, made in thumbnails.made.items() if made}
    sections = Sections(found, pictures)
    labeled = found.issues is not None
    here = files("asbc.explore")
    # Everything is escaped unless the template says otherwise, and it does so only for what is written here.
    templates = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # unsorted: Bokeh relies on the order
    template = templates.from_string(here.joinpath("page.html").read_text(encoding="utf-8"))
    return file_html(
        document,
        INLINE,
        name,
        template=template,
        template_variables={
            "generator": GENERATOR,
            "css": here.joinpath("page.css").read_text(encoding="utf-8"),
            "script": here.joinpath("page.js").read_text(encoding="utf-8"),
            "embed": lambda root: f'<div id="{root.elementid}" style="display: contents"></div>',
            "lead": _lead(found),
            "ways": ways,
            "search_hint": _search_hint(found),
            "map_note": _map_note(found),
            "cards": sections.cards(),
            "panels": panels,
            "hubs": sections.hubs(),
            "outliers": sections.outliers(),
            "groups": sections.groups(),
            "more_groups": sections.more_groups(),
            "pieces": sections.pieces(),
            "about": found.about,
            "about_page": about,
            "suspects": sections.suspects() if labeled else None,
            "doubtful": len(found.suspects),
            "alone": sections.alone(),
            "pairs": sections.pairs(),
            "per_class": sections.per_class(),
            "method": [*method, *notes, *([] if thumbnails is None else thumbnails.notes)],
            "footer": f"Made by {GENERATOR} {__version__}. The page needs no network; its numbers, one row per node, "
            "are in the Parquet file of the same name.",
        },
    )


def tooltip(columns: Any) -> str:
    """What a hover shows: the picture, number, label, text and some numbers. Bokeh escapes every ``@`` value."""
    rows = [
        ("label", "label", "@label"),
        ("suggested", "suggested", "@suggested"),
        ("suspicion", "suspicion", "@suspicion{0.00}"),
        ("image_name", "image", "@image_name"),
        ("dimension", "dimension", "@dimension{0.0}"),
        ("sigma", "σ", "@sigma{0.000}"),
        ("density", "density", "@density{0.00}"),
    ]
    lines = "".join(
        f'<tr><td style="color:#5b6770;padding-right:8px">{name}</td>'
        f'<td style="overflow-wrap:anywhere">{value}</td></tr>'
        for key, name, value in rows
        if key in columns
    )
    picture = (
        '<img src="data:image/webp;base64,@picture" alt="" '
        'style="display:block;max-width:96px;min-width:48px;border-radius:4px;margin:0 0 4px">'
        if "picture" in columns
        else ""
    )
    text = '<div style="margin:4px 0 0;overflow-wrap:anywhere">@text</div>' if "text" in columns else ""
    return (
        '<div style="max-width:260px;font:12px/1.4 system-ui,sans-serif;color:#1f2933">'
        f'{picture}<strong>@node</strong><table style="border-spacing:0;font:inherit">{lines}</table>{text}</div>'
    )


def _numbers(found: Findings, ways: list[Coloring]) -> dict[str, Any]:
    nodes = found.nodes.iloc[found.shown]
    columns: dict[str, Any] = {"node": nodes["node"].to_numpy(np.int32)}
    for key in ("x", "y", "dimension", "sigma", "density", "outlier_score", "nearest_ratio", "suspicion"):
        if key in nodes:
            columns[key] = nodes[key].to_numpy(np.float32)
    columns["component"] = nodes["component"].to_numpy(np.int32) + 1
    return columns | {way.field: way.values for way in ways if way.legend}


def _classes(found: Findings) -> dict[str, dict[str, list]]:
    """Columns of classes, as the names of these and the place of every node's among them, -1 for none."""
    nodes = found.nodes.iloc[found.shown]
    coded = {}
    for key in [name for name in ("label", "suggested") if name in nodes]:
        codes, names = pd.factorize(nodes[key])
        coded[key] = {"names": names.tolist(), "codes": codes.tolist()}
    return coded


def _words(found: Findings, thumbnails: Thumbnails | None, notes: list[str]) -> dict[str, list[str]]:
    """Columns of texts and pictures."""
    nodes, columns = found.nodes.iloc[found.shown], {}
    if "text" in nodes:
        most = min(TEXT_MOST, max(20, TEXT_BYTES // len(nodes)))
        texts = nodes["text"].tolist()
        columns["text"] = [text if len(text) <= most else text[: most - 1] + "…" for text in texts]
        cut = sum(len(text) > most for text in texts)
        if cut:
            notes.append(f"{cut:,} texts are cut to {most} characters on this page; the table has them whole.")
    if "image" in nodes:
        columns["image_name"] = nodes["image"].tolist()
    if thumbnails is not None:
        columns["picture"] = [thumbnails.made.get(int(node), "") for node in found.shown]
    return columns


def _panels(found: Findings):
    """Key, title, note, values, axis, thresholds and end of the axis of each histogram."""
    about, nodes = found.about, found.nodes
    clipped = Sections(found, set()).clipped()
    dimension = nodes["dimension"].to_numpy(float)
    far = float(np.quantile(dimension, 0.995))
    yield "dimension", "Local dimension.", clipped, dimension, "dimension", [], min(LARGEST, max(far, 2.0))
    limit = about.outlier_threshold
    note = f"{counted(len(about.outliers), 'node')} beyond {limit:.2f}, three quartile ranges above the upper quartile."
    score = nodes["outlier_score"].to_numpy(float)
    yield "outlier_score", "Outliers.", note, score, "distance, relative to around it", _finite(limit), None
    limit = about.duplicates.threshold
    near = int((about.duplicates.nearest <= limit).sum())
    note = f"{counted(near, 'node')} with another within {limit:.2g} of the distance to their last neighbour."
    nearest = nodes["nearest_ratio"].to_numpy(float)
    yield "nearest_ratio", "Near-duplicates.", note, nearest, "nearest neighbour, relative to scale", [limit], 1.0
    if found.issues is not None:
        note = f"{counted(len(found.suspects), 'label')} above 0.5, where another class weighs more than their own."
        yield "suspicion", "Label suspicion.", note, nodes["suspicion"].to_numpy(float), "suspicion", [0.5], 1.0


def _finite(limit: float) -> list[float]:
    return [limit] if np.isfinite(limit) else []


def _lead(found: Findings) -> str:
    about = found.about
    said = [f"{about.n:,} nodes, each with its {about.k} nearest neighbours"]
    if found.classes is not None:
        said.append(
            f"{about.n_labeled:,} labels of {about.n_classes:,} classes, {len(found.suspects):,} of them doubtful"
        )
    elif "label" in found.nodes:
        one = found.nodes["label"].nunique() == 1
        why = "all labels are of one class" if one else "no two nodes have the same label"
        said.append(f"{why}, so they are shown and not judged")
    copies, remote = len(about.duplicates.redundant), len(about.outliers)
    said.append(f"{counted(copies, 'near-duplicate')} and {counted(remote, 'outlier')}")
    return "; ".join(said) + "."


def _search_hint(found: Findings) -> str:
    *first, last = ["id", *(name for name in ("label", "text", "image") if name in found.nodes)]
    return f"{', '.join(first)} or {last}" if first else last


def _map_note(found: Findings) -> str:
    about, said = found.about, ""
    if len(found.shown) < about.n:
        by = "class" if found.issues is not None else "piece of the graph"
        said = (
            f"The map shows a sample: {len(found.shown):,} of {about.n:,} nodes, every {by} by its share (of a small "
            "one ten nodes, or all it has), and all nodes that this page lists. All numbers are of all nodes."
        )
    if about.components > 1 and not found.placed_by_vectors:
        said += " Separate pieces of the graph are placed at random, since the vectors were not given."
    return said.strip()
