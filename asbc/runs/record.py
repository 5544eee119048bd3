"""The record of an experiment: what it measures, prints, draws and claims, as plain data.

`asbc` reads from it what to print, `asbc-report` what to draw, W&B what to plot. Each run's folder holds its record as
`experiment.json`, so that a report of someone else's results never imports their code.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from asbc.evaluate.tasks import METRICS, Metric
from asbc.storage import read_json, write_json

log = logging.getLogger("asbc")

FILE = "experiment.json"
# Names and colors of asbc's own methods in reports and in W&B. The palette of Okabe and Ito, which colour-blind readers
# can distinguish, is darkened where lines on white need it.
METHOD_TITLES = {
    "knn": "kNN",
    "knn_sigma": "kNN-σ",
    "knn_sigma_alpha": "kNN-σ-α",
    "nnk_fixed": "NNK-fixed",
    "nnk_sigma": "NNK-σ",
    "nnk_sigma_alpha": "NNK-σ-α",
    "knn_fixed": "fixed",
    "umap": "UMAP",
    "solo_learn": "solo-learn exp(cos/T)",
    "graph_learning": "GraphLearning",
}
METHOD_COLORS = {
    "knn": "#5b6770",
    "knn_sigma": "#3ba3dc",
    "knn_sigma_alpha": "#0072b2",
    "nnk_fixed": "#e69f00",
    "nnk_sigma": "#d55e00",
    "nnk_sigma_alpha": "#b8578f",
}


@dataclass(frozen=True)
class Axis:
    """The setting that a sweep varies.

    Parameters
    ----------
    key : str
        Its dotted path in the config, such as "bandwidth.gamma".
    label : str
        Name on axes and in tables, such as "γ".
    base : float
        The value that the others are compared with; if it was not run, the smallest value takes its place.

    Examples
    --------
    >>> from asbc.runs import Axis, Experiment
    >>> Experiment("gamma", axis=Axis("bandwidth.gamma", "γ", 1.0)).axis.label
    'γ'
    """

    key: str
    label: str
    base: float


@dataclass(frozen=True)
class Figure:
    """One figure. `kind` names its renderer in :mod:`asbc.report`.

    Parameters
    ----------
    kind : str
        "levels": metric against level, next to its paired difference from the first method. "sweep": metric against
        the swept setting. "regimes", "alignment", "tuning": those of the paper. Others are drawn as "levels".
    name : str
        Name of the file, without suffix.
    title : str
    caption : str, default=""
    metrics : tuple of str, default=()
        What is drawn, a panel each.
    options : dict, default=an empty one
        Further plain values for the renderer.

    Examples
    --------
    >>> from asbc.runs import Experiment, Figure
    >>> figure = Figure("levels", "fig_agreement", "Agreement of edges", metrics=("edge_agreement",))
    >>> Experiment("agreement", figures=(figure,)).figures[0].name
    'fig_agreement'
    """

    kind: str
    name: str
    title: str
    caption: str = ""
    metrics: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table(Figure):
    """One table. `kind` names its renderer in :mod:`asbc.report`.

    Parameters
    ----------
    kind : str
        "levels": one metric, methods by levels, with the paired difference from kNN. "methods": means of metrics by
        method. "steps": paired differences between consecutive methods. "sweep": metrics at each value of the swept
        setting. "rules": bandwidth rules by kind of weights against the spectral rule. "regret". Others are shown as
        "methods".
    name, title : str
    caption : str, default=""
    metrics : tuple of str, default=()
        The columns.
    options : dict, default=an empty one

    Examples
    --------
    >>> from asbc.runs import Experiment, Table
    >>> table = Table("methods", "agreement", "Agreement of edges by method", metrics=("edge_agreement",))
    >>> Experiment("agreement", tables=(table,)).tables[0].title
    'Agreement of edges by method'
    """


@dataclass(frozen=True)
class Claim:
    """A statement that the results support, contradict or leave open. `kind` names the test in :mod:`asbc.report`.

    Parameters
    ----------
    text : str
    kind : str
        "order": each method of `methods` is above the one before it. "above": the first method is above each of the
        others. "at_least": `metric` is at least `options["value"]`. "flat": `metric` of the method changes by at most
        `options["margin"]` between the axis's base and larger values. "ratio", "closer", "wider_and_worse", "regimes",
        "cost": see the records that use them.
    metric : str, default=""
    methods : tuple of str, default=()
    of_paper : bool, default=True
        False for a question that the project asks beyond the paper.
    options : dict, default=an empty one

    Examples
    --------
    >>> from asbc.runs import Claim, Experiment
    >>> claim = Claim("NNK-σ beats kNN", "above", "loo", ("nnk_sigma", "knn"), of_paper=False)
    >>> Experiment("loo", claims=(claim,)).claims[0].methods
    ('nnk_sigma', 'knn')
    """

    text: str
    kind: str
    metric: str = ""
    methods: tuple[str, ...] = ()
    of_paper: bool = True
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """What one experiment is. All fields are plain data.

    Parameters
    ----------
    name : str
        As in ``asbc experiment=NAME`` and in the column `experiment` of the results.
    title : str, default=""
        Heading; empty for the name with spaces.
    question : str, default=""
        What it asks, in one sentence.
    headline : tuple of str, default=()
        Metrics that `asbc` prints first, the most important first. Others follow.
    metrics : tuple of Metric, default=()
        Descriptions of what is measured.
    axis : Axis, default=None
        The setting that its own sweep varies.
    needs_labels : bool, default=True
        Whether nothing of it can be measured without labels.
    accepts : str, default=""
        A run under another name that has measured this metric can be shown as this experiment; empty for none.
    suggested : bool, default=True
        Whether a report proposes to run it where it was not run.
    figures : tuple of Figure, default=()
    tables : tuple of Table, default=()
    claims : tuple of Claim, default=()
    paper : dict, default=an empty one
        Numbers that the paper prints, for figures, tables and claims.
    titles, colors : dict, default=an empty one
        Names and colors of methods, for those that have their own.

    Examples
    --------
    >>> from asbc.runs import Experiment
    >>> Experiment("agreement", headline=("edge_agreement",)).metric("edge_agreement").title
    'edge agreement'
    """

    name: str
    title: str = ""
    question: str = ""
    headline: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    axis: Axis | None = None
    needs_labels: bool = True
    accepts: str = ""
    suggested: bool = True
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    paper: dict[str, Any] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    colors: dict[str, str] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The title, or the name with spaces."""
        return self.title or self.name.replace("_", " ")

    def metric(self, name: str) -> Metric:
        """Return the description of a metric: the record's own, asbc's, or a generic one."""
        own = (metric for metric in self.metrics if metric.name == name)
        return next(own, METRICS.get(name, Metric(name)))

    def described(self, metrics: Iterable[Metric], methods: Mapping[str, Any] | None = None) -> Experiment:
        """Return the record with descriptions of metrics and looks of methods; those it has take precedence."""
        known = {metric.name: metric for metric in (*metrics, *self.metrics)}
        titles = {name: method.title for name, method in (methods or {}).items() if method.title}
        colors = {name: method.color for name, method in (methods or {}).items() if method.color}
        return replace(self, metrics=tuple(known.values()), titles=titles | self.titles, colors=colors | self.colors)


def load_record(record: Any, own: Experiment) -> Experiment:
    """Return the record that a config describes with its key `record`, under the name of `own`.

    `record` is None for `own`, a mapping for the fields, or a string such as "my_experiment.RECORD" that names an
    :class:`Experiment`.
    """
    if record is None:
        return own
    if isinstance(record, str):
        module, _, attribute = record.rpartition(".")
        found = getattr(import_module(module), attribute) if module else None
        if not isinstance(found, Experiment):
            raise ValueError(f"record must name an asbc.runs.Experiment, such as my_experiment.RECORD; got {record!r}")
    else:
        found = from_data({"name": own.name, **record})
    return replace(found, name=own.name)


def from_data(data: Mapping[str, Any]) -> Experiment:
    """Return a record from its fields as plain values. Unknown ones are ignored; missing and wrong ones are errors."""
    return _build(Experiment, data, "Experiment")


def _build(kind: Any, value: Any, name: str) -> Any:
    """Return a plain value as the type of the field `name`; a value of another type is an error."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else _build(inner[0], value, name)
    if origin is tuple:
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            raise ValueError(f"{name} must be a list; got {value!r}")
        return tuple(_build(inner[0], item, name) for item in value)
    if origin is dict or is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise ValueError(f"expected a mapping for {name}; got {type(value).__name__}")
        if origin is dict:
            return {str(key): _build(inner[1], item, name) for key, item in value.items()}
        types = get_type_hints(kind)
        try:
            return kind(**{key: _build(types[key], value[key], key) for key in types if key in value})
        except TypeError as error:
            raise ValueError(f"{name}: {error}") from error
    wanted = int | float if kind is float else kind
    if kind is not Any and (not isinstance(value, wanted) or (kind is int and isinstance(value, bool))):
        raise ValueError(f"{name} has a wrong type; got {value!r}")
    return value


def write_record(folder: Path, record: Experiment) -> None:
    """Write the record into a run's folder."""
    write_json(folder / FILE, asdict(record))


def read_record(folder: Path, own: Experiment) -> Experiment:
    """Return the record in a run's folder, under the name of `own`; if there is no readable one, `own`.

    Nothing that the record names is imported.
    """
    path = folder / FILE
    try:
        return replace(from_data(read_json(path)), name=own.name)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        log.warning("%s: not a readable record (%s); a default one is used", path, error)
    return own
