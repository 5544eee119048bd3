"""The page: one HTML file that needs no network, and the table behind it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.events import DocumentReady
from bokeh.models import ColumnDataSource, CustomJS
from bokeh.resources import INLINE
from jinja2 import Environment
from numpy.typing import NDArray

from asbc.dimension import LARGEST, SMALLEST
from asbc.explore.findings import MAX_GROUPS, MAX_OUTLIERS, MAX_SUSPECTS, Findings
from asbc.explore.map import FONT, NAME_SIZE, PICTURE_SIZE, Coloring, class_palette, cluster_names, colorings, draw_map
from asbc.explore.material import Thumbnails
from asbc.learn.issues import LabelIssues
from asbc.report.figures import Panel, panel_svg
from asbc.report.style import BLUE, RED
from asbc.storage import write_atomic, write_table
from asbc.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GENERATOR = "asbc-explore"
TABLE_MARK = b"asbc_explore"  # in the schema of the table, with the numbers about the whole
MAX_TEXT_BYTES = 8_000_000  # of all texts on a page; above, each is cut
MAX_TEXT = 300  # characters of a text on a page
SNIPPET = 140  # characters of a text in a list
MAX_COMPONENTS, MAX_PAIRS, MAX_CLUSTERS = 10, 30, 300  # components, pairs of classes and clusters that are listed
BINS = 48
WEIGHTS_IN_WORDS = {
    "Blend": "weights that are half NNK, half Gaussian",
    "NNK": "NNK weights",
    "Gaussian": "Gaussian weights",
    "Uniform": "equal weights",
}
# Columns of the table of chosen nodes and of its CSV file: key, title, digits.
COLUMNS: list[tuple[str, str, int | None]] = [
    ("node", "id", None),
    ("label", "label", None),
    ("cluster", "cluster", 0),
    ("cluster_name", "cluster name", None),
    ("suggested", "suggested", None),
    ("suspicion", "suspicion", 2),
    ("dimension", "dimension", 1),
    ("sigma", "sigma", 3),
    ("density", "density", 2),
    ("component", "component", 0),
    ("outlier_score", "outlier score", 2),
    ("nearest_ratio", "nearest ratio", 2),
    ("image_name", "image", None),
    ("text", "text", None),
    ("x", "x", 2),
    ("y", "y", 2),
]


def write_page(
    found: Findings,
    out: str | os.PathLike = "explore.html",
    *,
    title: str = "Vectors",
    thumbnails: Thumbnails | None = None,
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
    thumbnails : Thumbnails or None, default=None
        Small images of the nodes.

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
    text = render(found, title, thumbnails)
    about = found.about
    whole = {
        "version": __version__,
        "effective_rank": about.effective_rank,
        "metric": about.metric,
        "global_dimension": about.global_dimension,
        "hubness": about.hubness,
        "outlier_threshold": about.outlier_threshold if np.isfinite(about.outlier_threshold) else None,
        "duplicate_threshold": about.duplicates.threshold,
        "loo_accuracy": about.loo_accuracy,
    }
    write_table(table, found.nodes, {"explore": json.dumps(whole)})
    write_atomic(page, text)
    return page


def check_targets(out: str | os.PathLike) -> tuple[Path, Path]:
    """Return the paths of the page and the table, after a check that no other file would be overwritten."""
    page = Path(out)
    table = page.with_suffix(".parquet")
    if page.suffix not in (".html", ".htm"):
        raise ValueError(f"out must be a file that ends in .html; got {str(page)!r}.")
    if page.is_dir() or table.is_dir():
        raise ValueError(f"{page}: a folder; give another name.")
    own_page = not page.exists() or f'content="{GENERATOR}"'.encode() in page.read_bytes()[:4096]
    for path, own in ((page, own_page), (table, not table.exists() or _is_own_table(table))):
        if not own:
            raise ValueError(f"{path}: not written by {GENERATOR}, so it is not overwritten; give another name.")
    return page, table


def _is_own_table(path: Path) -> bool:
    try:
        return TABLE_MARK in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def render(found: Findings, title: str, thumbnails: Thumbnails | None = None) -> str:
    """Return the page as HTML. The parameters are those of :func:`write_page`."""
    ways = colorings(found)
    notes: list[str] = []
    source = ColumnDataSource(_numbers(found, ways), name="nodes")
    words, classes = _words(found, thumbnails, notes), _class_columns(found)
    plot, models = draw_map(source, ways, {*source.data, *words, *classes})
    models = {"nodes": source, **models}
    document = Document()
    document.add_root(plot)
    document.js_on_event(DocumentReady, CustomJS(args=models, code=f"window.exploreReady({{{', '.join(models)}}});"))
    places = np.stack([source.data["x"], source.data["y"]])
    histograms = list(_histograms(found))
    named_by_pictures = thumbnails is not None and not {"text", "label"} & set(found.nodes)
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
        "names": cluster_names(found, named_by_pictures),
        "font": f"{NAME_SIZE}px {FONT}",
        "picture_size": PICTURE_SIZE,
        "words": words,
        "classes": classes,
        "review": None if found.issues is None else _review(found),
        "histograms": {one.key: {"edges": one.edges, "counts": one.counts} for one in histograms},
    }
    templates = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # unsorted: Bokeh relies on the order
    here = files("asbc.explore")
    images = set() if thumbnails is None else {node for node, image in thumbnails.images.items() if image}
    return file_html(
        document,
        INLINE,
        title,
        template=templates.from_string(here.joinpath("page.html").read_text(encoding="utf-8")),
        template_variables={
            "generator": GENERATOR,
            "css": files("asbc.report").joinpath("page.css").read_text(encoding="utf-8"),
            "script": here.joinpath("page.js").read_text(encoding="utf-8"),
            "without_addresses": without_addresses,
            "embed": lambda root: f'<div id="{root.elementid}" style="display: contents"></div>',
            "about": found.about,
            "about_page": about,
            "ways": ways,
            "histograms": histograms,
            "method": [*_method(found.graph), *notes, *([] if thumbnails is None else thumbnails.notes)],
            "version": __version__,
            **_texts(found),
            **_lists(found, images),
        },
    )


def without_addresses(script: str) -> str:
    """Remove remote addresses from Bokeh's script, such as that of its MathJax loader. XML namespaces stay."""
    return re.sub(r"https?://(?!www\.w3\.org/)[^\s\"'`<>\\)$]+", "", script)


# Columns


def _numbers(found: Findings, ways: list[Coloring]) -> dict[str, Any]:
    nodes = found.nodes.iloc[found.shown]
    columns: dict[str, Any] = {"node": nodes["node"].to_numpy(np.int32)}
    for key in ("x", "y", "dimension", "sigma", "density", "outlier_score", "nearest_ratio", "suspicion"):
        if key in nodes:
            columns[key] = nodes[key].to_numpy(np.float32)
    columns["component"] = nodes["component"].to_numpy(np.int32) + 1
    if "cluster" in nodes:
        columns["cluster"] = nodes["cluster"].to_numpy(np.int32)
    return columns | {way.field: way.values for way in ways if way.legend}


def _class_columns(found: Findings) -> dict[str, dict[str, list]]:
    """Return columns of classes as their names and each node's class number, -1 for none."""
    nodes = found.nodes.iloc[found.shown]
    coded = {}
    for key in [name for name in ("label", "suggested", "cluster_name") if name in nodes]:
        codes, names = pd.factorize(nodes[key])
        coded[key] = {"names": names.tolist(), "codes": codes.tolist()}
    return coded


def _words(found: Findings, thumbnails: Thumbnails | None, notes: list[str]) -> dict[str, list[str]]:
    """Return columns of texts and images; adds a note if texts are cut."""
    nodes, columns = found.nodes.iloc[found.shown], {}
    if "text" in nodes:
        most = min(MAX_TEXT, max(20, MAX_TEXT_BYTES // len(nodes)))
        texts = nodes["text"].tolist()
        columns["text"] = [_cut(text, most) for text in texts]
        cut = sum(len(text) > most for text in texts)
        if cut:
            notes.append(f"{cut:,} texts are cut to {most} characters on this page; the table has the full texts.")
    if "image" in nodes:
        columns["image_name"] = nodes["image"].tolist()
    if thumbnails is not None:
        columns["picture"] = [thumbnails.images.get(int(node), "") for node in found.shown]
    return columns


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


# Histograms


class Histogram(NamedTuple):
    """A histogram of all nodes: its column, title, note, bins and SVG."""

    key: str
    title: str
    note: str
    edges: list[float]
    counts: list[int]
    svg: str


def _histograms(found: Findings) -> Iterator[Histogram]:
    about, nodes = found.about, found.nodes
    dimension = nodes["dimension"].to_numpy(float)
    far = min(LARGEST, max(float(np.quantile(dimension, 0.995)), 2.0))
    yield _histogram("dimension", "Local dimension.", _clipped(found), dimension, "dimension", None, far)
    limit = about.outlier_threshold
    beyond = _count(len(about.outliers), "node")
    note = f"{beyond} beyond {limit:.2f}, three interquartile ranges above the upper quartile."
    score = nodes["outlier_score"].to_numpy(float)
    yield _histogram("outlier_score", "Outliers.", note, score, "distance, relative to nearby nodes", limit)
    limit = about.duplicates.threshold
    near = int((about.duplicates.nearest <= limit).sum())
    note = f"{_count(near, 'node')} with another node within {limit:.2g} of the distance to their last neighbour."
    nearest = nodes["nearest_ratio"].to_numpy(float)
    yield _histogram(
        "nearest_ratio", "Near-duplicates.", note, nearest, "nearest neighbour, relative to scale", limit, 1.0
    )
    if found.issues is not None:
        note = f"{_count(len(found.suspects), 'label')} above 0.5, where another class has more support."
        suspicion = nodes["suspicion"].to_numpy(float)
        yield _histogram("suspicion", "Label suspicion.", note, suspicion, "suspicion", 0.5, 1.0)


def _histogram(
    key: str, title: str, note: str, values: NDArray, label: str, limit: float | None, upper: float | None = None
) -> Histogram:
    """Draw a histogram; values beyond `upper` are counted in the last bar. The script of the page finds bars by id."""
    finite = values[np.isfinite(values)]
    limits = [limit] if limit is not None and np.isfinite(limit) else []
    low = min([*finite.min(initial=np.inf, keepdims=True), *limits]) if len(finite) else 0.0
    high = max([np.quantile(finite, 0.999), *limits]) if len(finite) else 1.0
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

    svg = panel_svg(Panel("", paint, f"Histogram: {title} {note}"), size=(3.6, 2.1), salt=key)
    return Histogram(key, title, note, edges.tolist(), counts.tolist(), svg)


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


# Sentences


def _estimate(issues: LabelIssues | None) -> str:
    """Return how many labels are wrong, in words."""
    if issues is None:
        return ""
    guess = issues.estimate
    if guess is None:
        return "How many labels are wrong is unknown, because these classes overlap."
    return (
        f"About {guess.number:,} labels are wrong, 95% interval {guess.low:,} to {guess.high:,}, if mistakes do not "
        "depend on how clear a node is; more, if unclear nodes have more of them."
    )


def _texts(found: Findings) -> dict[str, str]:
    """Return the sentences of the page: its lead, the search field's hint, and the note on the map."""
    about = found.about
    lead = [f"{about.n:,} nodes, each with its {about.k} nearest neighbours"]
    if found.classes is not None:
        doubtful = len(found.suspects)
        lead.append(f"{about.n_labeled:,} labels of {about.n_classes:,} classes, {doubtful:,} of them doubtful")
    elif "label" in found.nodes:
        one = found.nodes["label"].nunique() == 1
        why = "all labels are of one class" if one else "no two nodes have the same label"
        lead.append(f"{why}, so they are shown and not judged")
    duplicates, outliers = len(about.duplicates.redundant), len(about.outliers)
    lead.append(f"{_count(duplicates, 'near-duplicate')} and {_count(outliers, 'outlier')}")
    *first, last = ["id", *(name for name in ("label", "text", "image") if name in found.nodes)]
    note = ""
    if len(found.shown) < about.n:
        by = "class" if found.issues is not None else "component"
        note = (
            f"The map shows a sample of {len(found.shown):,} of {about.n:,} nodes, stratified by {by} (at least ten "
            "nodes of each, or all), and every node that this page lists. All numbers are computed from all nodes."
        )
    if about.components > 1 and not found.placed_by_vectors:
        note += " Separate components are placed at random, because the vectors were not given."
    return {
        "lead": "; ".join(lead) + ".",
        "search_hint": f"{', '.join(first)} or {last}" if first else last,
        "map_note": note.strip(),
    }


def _method(facts: dict[str, Any]) -> list[str]:
    """Return how the graph and the map were made, in sentences."""
    search = {None: "", "exact": " (exact search)"}.get(facts["search"], f" ({facts['search']} search)")
    recall = "" if facts["recall"] is None else f" with recall {facts['recall']:.3f}"
    weights = WEIGHTS_IN_WORDS.get(facts["weights"], facts["weights"])
    return [
        f"Each node has {facts['k']} neighbours by {facts['metric']} distance{search}{recall}. The graph has {weights} "
        f"and {facts['edges']:,} edges, counted in both directions.",
        f"The map is UMAP's layout of this graph from a spectral start, with seed {facts['seed']}. Near nodes stay "
        "near; distances between groups mean little.",
        "The support of a class at a node is its weight among the neighbours, averaged with the prediction of a linear "
        "model that has not seen the node; the better of the two counts more. Suspicion is 0.5 where another class has "
        "as much support as the label, and 1 where only another class has support.",
        "Outliers, near-duplicates and density are relative to a node's own scale, the distance to its last neighbour. "
        "Density is the median of all scales, divided by the node's own.",
    ]


def _clipped(found: Findings) -> str:
    about = found.about
    if not about.at_smallest + about.at_largest:
        return f"No estimate is at the limits, {SMALLEST:.0f} and {LARGEST:.0f}."
    return (
        f"{about.at_smallest:,} estimates are at the lower limit {SMALLEST:.0f}, {about.at_largest:,} at the upper "
        f"limit {LARGEST:.0f}."
    )


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


# Lists


class Ref(NamedTuple):
    """A node in a list: its number, label and text, and whether it has an image."""

    node: int
    label: str | None
    text: str
    picture: bool


class Card(NamedTuple):
    """One number of the overview: name, value, explanation, and the nodes that it is about."""

    name: str
    value: str
    note: str
    nodes: str = ""


def _lists(found: Findings, images: set[int]) -> dict[str, Any]:
    """Return the cards and lists of the page."""
    about, nodes = found.about, found.nodes
    labels = nodes["label"].tolist() if "label" in nodes else [None] * about.n
    texts = nodes["text"].tolist() if "text" in nodes else [""] * about.n

    def refs(some: NDArray[np.int64]) -> list[Ref]:
        return [Ref(i, labels[i], _cut(str(texts[i]), SNIPPET), i in images) for i in np.asarray(some).tolist()]

    outliers, groups = about.outliers[:MAX_OUTLIERS], found.listed_groups
    component = nodes["component"].to_numpy()
    sizes = np.bincount(component)
    return {
        "cards": _cards(found, sizes),
        "hubs": list(zip(refs(about.hubs), about.occurrence[about.hubs].tolist(), strict=True)),
        "outliers": list(zip(refs(outliers), about.outlier_score[outliers].tolist(), strict=True)),
        "groups": [(refs(group), len({labels[node] for node in group} - {None}) > 1) for group in groups],
        "more_groups": max(0, len(about.duplicates.groups) - MAX_GROUPS),
        "components": [
            (number + 1, int(sizes[number]), _join(np.flatnonzero(component == number)) if number else "")
            for number in range(min(MAX_COMPONENTS, len(sizes)))
        ],
        "cluster_count": 0 if found.clusters is None else len(found.clusters.table),
        "clusters": None if found.clusters is None else _clusters(found.clusters.table, refs),
        "doubtful": None if found.issues is None else len(found.suspects),
        "listed": min(MAX_SUSPECTS, len(found.suspects)),
        "to_review": 0 if found.issues is None else len(found.issues.review),
        "estimate": _estimate(found.issues),
        "simulation": None if found.simulation is None else _simulation(found.simulation),
        **_class_lists(found),
    }


def _clusters(table: pd.DataFrame, refs: Any) -> list[dict[str, Any]]:
    palette = class_palette(len(table))
    rows: Any = table[:MAX_CLUSTERS].to_dict("records")
    return [{**row, "color": palette[row["cluster"]], "examples": refs(row["examples"])} for row in rows]


def _cards(found: Findings, sizes: NDArray[np.int64]) -> list[Card]:
    about = found.about
    low, middle, high = about.dimension_quartiles
    groups = about.duplicates.groups
    quartiles = f"median; half of the nodes lie between {low:.1f} and {high:.1f}. {_clipped(found)}"
    cards = [
        Card(
            "Nodes",
            f"{about.n:,}",
            (f"vectors with {about.d:,} dimensions, " if about.d else "")
            + f"{about.k} neighbours each by the {about.metric} metric",
        ),
        Card("Local dimension", f"{middle:.1f}", quartiles),
    ]
    if about.global_dimension is not None and about.global_interval is not None:
        note = "of all vectors together, by spanning trees; 95% interval {:.1f} to {:.1f}".format(
            *about.global_interval
        )
        cards.append(Card("Global dimension", f"{about.global_dimension:.1f}", note))
    if about.effective_rank is not None:
        note = f"of {min(about.n, about.d or about.n):,} directions are in use overall (RankMe)"
        cards.append(Card("Effective rank", f"{about.effective_rank:.0f}", note))
    connected = "the graph is connected"
    cards += [
        Card(
            "Components",
            f"{about.components:,}",
            connected if about.components == 1 else f"the largest has {sizes.max() / about.n:.1%} of the nodes",
        ),
        Card(
            "Hubs",
            f"{about.hubness:.2f}",
            f"skewness of how often nodes are neighbours. {about.antihubs:.1%} are nobody's neighbour; the largest hub "
            f"is a neighbour of {about.occurrence[about.hubs[0]]:,} nodes",
            _join(about.hubs),
        ),
        Card(
            "Outliers",
            f"{len(about.outliers):,}",
            f"are more than {about.outlier_threshold:.2f} times as far from their neighbours as nearby nodes",
            _join(about.outliers),
        ),
        Card(
            "Near-duplicates",
            f"{len(about.duplicates.redundant):,}",
            f"could be dropped: {_count(len(groups), 'group')} of nodes that are nearly the same",
            _join(np.concatenate(groups)) if groups else "",
        ),
    ]
    if about.loo_accuracy is not None and about.loo_interval is not None:
        bottom, top = about.loo_interval
        note = (
            f"of {about.n_labeled:,} labels win the vote of their neighbours [{bottom:.1%}, {top:.1%}], with "
            f"{WEIGHTS_IN_WORDS.get(found.graph['weights'], found.graph['weights'])} by {about.metric} distance"
        )
        cards.append(Card("Labels that fit", f"{about.loo_accuracy:.1%}", note, _join(found.suspects)))
    return cards


def _review(found: Findings) -> dict[str, Any]:
    """Return what the review of doubtful labels needs: nodes, their supporters, classes and earlier decisions."""
    nodes, issues = found.suspects[:MAX_SUSPECTS], found.issues
    assert issues is not None
    decisions = {} if found.corrections is None else found.corrections.set_index("node").to_dict("index")
    classes = found.nodes["label"].dropna().unique().tolist()
    return {
        "key": hashlib.sha256(json.dumps([classes, issues.given.astype(str).tolist()]).encode()).hexdigest()[:16],
        "nodes": nodes.tolist(),
        "supporters": [row[row >= 0].tolist() for row in issues.supporters[nodes]],
        "classes": sorted(classes),
        "decisions": {int(str(node)): decision for node, decision in decisions.items()},
    }


def _class_lists(found: Findings) -> dict[str, Any]:
    """Return pairs of classes that are confused, the accuracy of each class, and a note on classes of one node."""
    report, suspects = found.classes, found.suspects
    if report is None:
        return {"pairs": [], "per_class": [], "single": ""}
    names = [value.decode() if isinstance(value, bytes) else str(value) for value in report.classes.tolist()]
    given = found.nodes["label"].to_numpy(object)[suspects]
    suggested = found.nodes["suggested"].to_numpy(object)[suspects]
    pairs = []
    for (a, b), there, back in list(zip(report.pairs, report.there, report.back, strict=True))[:MAX_PAIRS]:
        one, other = names[a], names[b]
        between = ((given == one) & (suggested == other)) | ((given == other) & (suggested == one))
        pairs.append({"one": one, "other": other, "there": there, "back": back, "nodes": _join(suspects[between])})
    worst_first = np.lexsort((-report.size, report.accuracy))
    per_class = [
        {
            "name": names[c],
            "size": int(report.size[c]),
            "share": float(report.accuracy[c]),
            "low": float(report.low[c]),
            "high": float(report.high[c]),
        }
        for c in worst_first
    ]
    single = int((report.size == 1).sum())
    note = f"{single:,} class{'' if single == 1 else 'es'} with a single node cannot be judged." if single else ""
    return {"pairs": pairs, "per_class": per_class, "single": note}


def _join(nodes: NDArray[np.int64]) -> str:
    """Return node numbers as an attribute of the page."""
    return ",".join(map(str, np.asarray(nodes).tolist()))
