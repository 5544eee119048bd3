"""What each metric of the results is called and how it is shown: names, digits, which direction is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PER_SAMPLE = "samples per class"
PER_LABEL = "labels per class"
PER_CENT = "% of labels wrong"


@dataclass(frozen=True)
class Metric:
    """Description of one metric. A metric without a description gets ``Metric(name)``.

    Parameters
    ----------
    name : str
        As in the column `metric` of the results.
    label : str, default=""
        Name in tables and axes; empty for the name with spaces.
    digits : int, default=3
        Decimals in tables.
    higher_is_better : bool or None, default=None
        None where no direction is better.
    percent : bool, default=False
        Show the value as a percentage.
    level : str, default="samples per class"
        What the column `level` counts. A metric with another unit has several levels per sample, such as labels per
        class in propagation. Its first and its last level are shown where there is room for two numbers.
    task : str, default=""
        The use of a graph that the metric measures, for "which graph for which task"; empty for none.
    by : tuple of str, default=()
        Columns that distinguish rows of the same method, level and trial, such as ("target", "estimator").
    needs_labels : bool, default=False
        Whether it can be measured only on labelled data.
    description : str, default=""
        One sentence on what is measured.

    Examples
    --------
    >>> from asbc.evaluate import Metric
    >>> Metric("edge_agreement", digits=2, higher_is_better=True).title
    'edge agreement'
    """

    name: str
    label: str = ""
    digits: int = 3
    higher_is_better: bool | None = None
    percent: bool = False
    level: str = PER_SAMPLE
    task: str = ""
    by: tuple[str, ...] = ()
    needs_labels: bool = False
    description: str = ""

    @property
    def title(self) -> str:
        """The label, or the name with spaces."""
        return self.label or self.name.replace("_", " ")


def _scored(name: str, label: str, description: str, *, digits: int = 4, better: bool = True, **more: Any) -> Metric:
    """A metric that compares predictions with labels."""
    return Metric(name, label, digits, better, needs_labels=True, description=description, **more)


_RANK_AND_DIMENSION = ("target", "estimator")
_QUARTILES = {"q25": "lower quartile of the", "median": "median", "q75": "upper quartile of the"}
_NOISE = {
    "near": "were moved to one of the three nearest classes",
    "uniform": "were moved to any other class",
    "human": "people got wrong",
}
_UNREACHED = "Share of nodes that no label reaches; they count as wrong."
_REGRET = "LOO at the best bandwidth that tuning with labels finds, less the method's own."
_SPEARMAN = "Rank correlation of the effective rank r and the intrinsic dimension d over the nodes."

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _scored("loo", "LOO", "Share of nodes whose label their neighbours vote for.", task="Vote of the neighbours"),
        _scored("loo_balanced", "LOO balanced", "Mean over classes of the leave-one-out accuracy of each class."),
        _scored("lp", "LP", "Accuracy on nodes with hidden labels.", level=PER_LABEL, task="Label propagation"),
        _scored("lp_balanced", "LP balanced", "Mean over classes of the accuracy of each class.", level=PER_LABEL),
        _scored("lp_unreached", "unreached", _UNREACHED, digits=1, better=False, percent=True, level=PER_LABEL),
        _scored("nmi", "NMI", "Normalised mutual information of spectral clusters and classes."),
        _scored("ari", "ARI", "Adjusted Rand index of spectral clusters and classes.", task="Clustering"),
        _scored("leiden_ari", "ARI, Leiden", "Adjusted Rand index of Leiden's clusters and classes."),
        _scored("regret", "regret", _REGRET, better=False),
        *(
            _scored(
                f"noise_{kind}", f"noise {kind}", f"Average precision in finding labels that {what}.", level=PER_CENT
            )
            for kind, what in _NOISE.items()
        ),
        Metric("spearman", "Spearman(r, d)", 3, True, by=_RANK_AND_DIMENSION, description=_SPEARMAN),
        Metric("slope", "slope of r on d", 3, by=_RANK_AND_DIMENSION),
        Metric("intercept", "intercept of r on d", 3, by=_RANK_AND_DIMENSION),
        Metric("components", "pieces", 0, False, description="Connected components of the graph."),
        Metric("largest", "largest piece", 1, True, percent=True, description="Share of nodes in the largest piece."),
        Metric("isolated", "isolated nodes", 0, False),
        Metric("edges", "edges", 0),
        Metric("degree_min", "fewest neighbours", 0),
        Metric("degree_median", "median neighbours", 0),
        Metric("degree_max", "most neighbours", 0),
        Metric("row_degree_median", "neighbours", 0, description="Median number of neighbours with a weight."),
        Metric("condition_median", "condition", 0, description="Median condition number of the local kernels."),
        Metric("condition_q95", "condition, 95%", 0),
        Metric("at_edge", "at edge", 1, percent=True, description="Nodes whose bandwidth is at an end of the grid."),
        Metric("sigma_median", "median σ", 3),
        Metric("rank_median", "median r", 1, by=("scale", *_RANK_AND_DIMENSION)),
        Metric("dimension_median", "median d", 1, by=_RANK_AND_DIMENSION),
        *(
            Metric(f"{name}_{q}", f"{words} {text}", 2, by=("scale",))
            for name, text in (("rank", "rank"), ("slope", "slope"), ("condition", "condition"))
            for q, words in _QUARTILES.items()
            if (name, q) not in (("rank", "median"), ("condition", "median"))
        ),
        *(
            Metric(f"chosen_{name}_{q}", f"{words} {text}", 2)
            for name, text in (("scale", "chosen σ / distance"), ("rank", "chosen rank"), ("dimension", "dimension"))
            for q, words in _QUARTILES.items()
        ),
    )
}


def describe_metric(name: str) -> Metric:
    """Return the description of a metric, a generic one if there is none."""
    return METRICS.get(name, Metric(name))
