"""Classes judged by their neighbours, against loops over all nodes."""

from collections import Counter

import numpy as np
import pytest

import asbc
from asbc.explore.findings import judge_classes


@pytest.fixture(scope="module", params=["strings", "numbers"])
def judged(request, clouds):
    X, y = clouds
    rng = np.random.default_rng(0)
    labels = y.copy()
    labels[rng.choice(len(y), 30, replace=False)] = rng.integers(0, 6, 30)
    if request.param == "strings":
        labels = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])[labels]
        labels[::17] = ""
    else:
        labels[::17] = -1
    builder = asbc.GraphBuilder(weights="blend").fit(X)
    return asbc.find_label_issues(builder, labels)


def test_accuracy_and_confusion(judged):
    report = judge_classes(judged)
    right, size, taken = Counter(), Counter(), Counter()
    for given, said in zip(judged.given, judged.voted, strict=True):
        if given in ("", -1):
            continue
        size[given] += 1
        if said == given:
            right[given] += 1
        elif said not in ("", -1):
            taken[given, said] += 1
    classes, pairs = report
    names = sorted(size)
    assert classes["name"].tolist() == [str(name) for name in names]
    assert classes["size"].tolist() == [size[name] for name in names]
    assert classes["right"].tolist() == [right[name] for name in names]
    assert ((classes["low"] <= classes["accuracy"]) & (classes["accuracy"] <= classes["high"])).all()
    found = Counter()
    for pair in pairs.itertuples():
        found[pair.one, pair.other], found[pair.other, pair.one] = pair.there, pair.back
    assert +found == Counter({(str(a), str(b)): times for (a, b), times in taken.items()}) and taken
    assert (np.diff(pairs["there"] + pairs["back"]) <= 0).all()


def test_nodes_that_nobody_votes_for_are_wrong_and_confused_with_nothing():
    X = np.concatenate([np.random.default_rng(0).normal(c, 1, (30, 2)) for c in (0, 90)])
    labels = np.full(60, -1)
    labels[:30], labels[40] = 1, 2
    classes, pairs = judge_classes(asbc.find_label_issues(asbc.GraphBuilder(k_cand=10).fit(X), labels))
    assert classes["size"].tolist() == [30, 1] and classes["right"].tolist() == [30, 0] and len(pairs) == 0
