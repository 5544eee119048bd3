"""Results with a known truth: rows as `asbc` writes them, with accuracies that a test decides."""

import numpy as np

from asbc.evaluate.tasks import pack_hits
from asbc.runs.results import Run

NODES = 400


def rows_of(accuracy, *, metric="loo", levels=(20,), trials=5, seed=0, **columns):
    """Rows of methods whose accuracies are given: a better method is right wherever a worse one is, and more."""
    rows = []
    for level in levels:
        for trial in range(trials):
            luck = np.random.default_rng([seed, level, trial]).random(NODES)
            for method, share in accuracy.items():
                right = luck < share
                scored, packed = pack_hits(np.arange(NODES), right, NODES)
                rows.append(
                    {
                        "dataset": "made",
                        "encoder": "up",
                        "method": method,
                        "weights": "nnk" if "nnk" in method else "gaussian",
                        "samples": 20,
                        "level": level,
                        "trial": trial,
                        "metric": metric,
                        "value": right.mean(),
                        "seconds": 0.1,
                        "k_cand": 30,
                        "scored": scored,
                        "right": packed,
                        **columns,
                    }
                )
    return rows


def write_run(
    root,
    experiment,
    rows,
    *,
    id=None,
    dataset="made",
    encoder="up",
    finish=True,
    fingerprint=None,
    facts=None,
    **settings,
):
    """A run's folder, as `asbc` leaves it."""
    settings = {"k_cand": 30, "bandwidth": {"gamma": 1.0, "n_grid": 12}, "seed": 0, **settings}
    name = id or f"{experiment}-{len(list(root.glob('*')))}"
    with Run(root, name, settings) as run:
        facts = {**(facts or {}), **({} if fingerprint is None else {"fingerprint": fingerprint})}
        run.begin(experiment=experiment, dataset=dataset, encoder=encoder, units=9, **facts)
        run.append("unit", rows)
        if finish:
            run.finish()
    return root / name


def fail_run(root, experiment, *, fingerprint):
    """A run's folder, as `asbc` leaves it after an error before the first row."""
    try:
        with Run(root, f"{experiment}-failed", {"seed": 0}) as run:
            run.begin(experiment=experiment, dataset="made", encoder="up", units=9, fingerprint=fingerprint)
            raise RuntimeError("out of luck")
    except RuntimeError:
        pass
