"""The record of an experiment: what it measures, prints, draws and claims, as plain data.

`asbc` reads from it what to print, `asbc-report` what to draw, W&B what to plot. Each run's folder holds its record as
`experiment.json`, so that a report of someone else's results never imports their code.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from asbc.evaluate.metrics import Metric, describe_metric
from asbc.storage import DamagedFileError, read_json, write_json

log = logging.getLogger("asbc")

FILE = "experiment.json"
MAX_BYTES = 2**20


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
        return next((metric for metric in self.metrics if metric.name == name), describe_metric(name))

    def described(self, metrics: Iterable[Metric]) -> Experiment:
        """Return the record with further descriptions; those it has take precedence."""
        known = {metric.name: metric for metric in (*metrics, *self.metrics)}
        return replace(self, metrics=tuple(known.values()))

    def with_methods(self, methods: Mapping[str, Any]) -> Experiment:
        """Return the record with the titles and colors of methods; those it has take precedence."""
        titles = {name: method.title for name, method in methods.items() if method.title}
        colors = {name: method.color for name, method in methods.items() if method.color}
        return replace(self, titles=titles | self.titles, colors=colors | self.colors)


def find_record(name: str) -> Experiment:
    """Return the record of one of asbc's own experiments, and a generic record for any other name."""
    from asbc.runs.experiments import EXPERIMENTS

    return EXPERIMENTS.get(name, Experiment(name, needs_labels=False))


def load_record(record: Any, name: str) -> Experiment:
    """Return the record of the experiment that a config describes with its keys `record` and `name`.

    `record` is None for the record of that name, a mapping for its fields, or a string such as "my_experiment.RECORD"
    that names an :class:`Experiment`.
    """
    if record is None:
        return find_record(name)
    if isinstance(record, str):
        module, _, attribute = record.rpartition(".")
        found = getattr(import_module(module), attribute) if module else None
        if not isinstance(found, Experiment):
            raise ValueError(f"record must name an asbc.runs.Experiment, such as my_experiment.RECORD; got {record!r}")
    else:
        found = from_data({"name": name, **record})
    return replace(found, name=name)


_PARTS = {"metrics": Metric, "figures": Figure, "tables": Table, "claims": Claim}
_TYPES = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "bool | None": (bool, type(None)),
    "dict[str, Any]": Mapping,
    "dict[str, str]": Mapping,
}


def from_data(data: Mapping[str, Any]) -> Experiment:
    """Return a record from its fields as plain values. Unknown ones are ignored; missing and wrong ones are errors."""
    return _build(Experiment, data)


def _build(cls: Any, data: Any) -> Any:
    if not isinstance(data, Mapping):
        raise ValueError(f"expected a mapping for {cls.__name__}; got {type(data).__name__}")
    values: dict[str, Any] = {}
    for each in fields(cls):
        if each.name not in data:
            continue
        value = data[each.name]
        if cls is Experiment and each.name in _PARTS:
            values[each.name] = tuple(_build(_PARTS[each.name], item) for item in _sequence(value, each.name))
        elif each.name == "axis":
            values[each.name] = None if value is None else _build(Axis, value)
        elif each.type == "tuple[str, ...]":
            values[each.name] = tuple(_check(item, str, each.name) for item in _sequence(value, each.name))
        else:
            values[each.name] = _check(value, _TYPES[str(each.type)], each.name)
            if each.type == "dict[str, str]":
                values[each.name] = {str(key): _check(text, str, each.name) for key, text in value.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from error


def _sequence(value: Any, name: str) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise ValueError(f"{name} must be a list; got {value!r}")
    return list(value)


def _check(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} has a wrong type; got {value!r}")
    return dict(value) if kind is Mapping else value


def write_record(folder: Path, record: Experiment) -> None:
    """Write the record into a run's folder."""
    write_json(folder / FILE, asdict(record))


def read_record(folder: Path, name: str) -> Experiment:
    """Return the record in a run's folder; if there is no readable one, asbc's own of that name.

    Nothing that the record names is imported.
    """
    path = folder / FILE
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DamagedFileError(f"{path}: larger than {MAX_BYTES:,} bytes.")
        return replace(from_data(read_json(path)), name=name)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        log.warning("%s: not a readable record (%s); asbc's own is used", path, error)
    return find_record(name)
