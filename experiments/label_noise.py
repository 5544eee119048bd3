"""How well are wrong labels found? Average precision with labels moved on purpose, ours against other ways.

    python experiments/label_noise.py embeddings.npz

The file holds `embeddings` (n, d) and `labels` (n,). A share of the labels is moved, to any other class or to a near
one, and each way ranks all nodes from the most doubtful on. All ways see the same labels in a trial, so they are
compared in pairs. Needs scikit-learn; cleanlab is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

import asbc
from asbc.evaluate.comparison import compare
from asbc.learn.labels import encode_labels

OURS = "half NNK, half Gaussian"


def moved_labels(codes, X, share, kind, seed):
    """Labels of which a share is moved, and which ones those are: (n,) int, (n,) bool.

    "uniform" moves a label to any other class alike; "near" to the class, among the three whose centres are nearest to
    its own class's centre, that the draw gives.
    """
    rng = np.random.default_rng(seed)
    classes = int(codes.max()) + 1
    moved = np.zeros(len(codes), dtype=bool)
    moved[rng.choice(len(codes), round(share * len(codes)), replace=False)] = True
    out = codes.copy()
    if kind == "uniform":
        out[moved] = (codes[moved] + rng.integers(1, classes, moved.sum())) % classes
    else:
        centers = asbc.normalize(np.stack([X[codes == c].mean(axis=0) for c in range(classes)]))
        likeness = centers @ centers.T
        np.fill_diagonal(likeness, -np.inf)
        near = np.argsort(-likeness, axis=1, kind="stable")[:, :3]
        out[moved] = near[codes[moved], rng.integers(0, 3, moved.sum())]
    return out, moved


def with_rows(builder, weights):
    """The same fitted builder with other rows of weights."""
    copy = asbc.GraphBuilder(**builder.get_params())
    vars(copy).update({**vars(builder), "weights_": weights})
    return copy


def cleanlab_doubt(X, labels):
    """What cleanlab's Datalab says from the features alone; None if it is not installed."""
    try:
        from cleanlab import Datalab
    except ImportError:
        return None
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab = Datalab(data={"label": labels}, label_name="label", verbosity=0)
        lab.find_issues(features=X, issue_types={"label": {}})
    return 1.0 - lab.get_issues("label")["label_score"].to_numpy()


def regression_doubt(X, labels):
    """Out-of-fold margin of five-fold logistic regression: the best other class's probability minus the own one's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = cross_val_predict(LogisticRegression(C=10.0, max_iter=200), X, labels, cv=5, method="predict_proba")
    codes, _ = encode_labels(labels)
    own = p[np.arange(len(p)), codes]
    p[np.arange(len(p)), codes] = -1.0
    return p.max(axis=1) - own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--no-regression", action="store_true", help="leave the slow one out")
    args = parser.parse_args()
    with np.load(args.file, allow_pickle=False) as data:
        X, codes = asbc.normalize(data["embeddings"]), encode_labels(data["labels"])[0]
    nnk = asbc.GraphBuilder("nnk").fit(X)
    gaussian = asbc.GraphBuilder("gaussian", asbc.Perplexity()).fit(X)
    sources = {
        "NNK": nnk,
        "Gaussian, perplexity": gaussian,
        OURS: with_rows(nnk, (nnk.weights_ + gaussian.weights_) / 2),
    }
    for kind in ("near", "uniform"):
        for share in (0.05, 0.2):
            found: dict[str, list[float]] = {}
            for trial in range(args.trials):
                labels, moved = moved_labels(codes, X, share, kind, seed=[trial, round(100 * share)])
                doubts = {name: 1.0 - asbc.find_label_issues(s, labels).quality for name, s in sources.items()}
                doubts["cleanlab Datalab"] = cleanlab_doubt(X, labels)
                if not args.no_regression:
                    doubts["logistic regression"] = regression_doubt(X, labels)
                for name, doubt in doubts.items():
                    if doubt is not None:
                        found.setdefault(name, []).append(average_precision_score(moved, doubt))
            print(f"{kind}, {share:.0%} moved, {args.trials} trials", flush=True)
            for name, values in found.items():
                against = "" if name == OURS else f"   {OURS} minus this: {compare(found[OURS], values)}"
                print(f"  {name:25s} {np.mean(values):.3f}{against}", flush=True)


if __name__ == "__main__":
    main()
