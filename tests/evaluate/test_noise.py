"""Moved labels: they go where they should, alike for all ways to find them, and are found."""

import numpy as np
import pytest

from asbc.evaluate import LabelNoise
from asbc.evaluate.noise import RIVALS, near_classes
from asbc.learn.issues import move_labels
from tests.evaluate.small import KNN, NNK


@pytest.mark.parametrize("share", [0.001, 0.05, 0.2])
def test_labels_move_to_other_classes_and_near_ones_to_near_ones(share):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(6), 50)
    X = rng.normal(size=(300, 4)) * 0.1 + codes[:, None]  # classes in a row
    classes = near_classes(X, codes)
    for near in (classes, None):
        labels = move_labels(codes, share, near, seed=1)
        assert (labels != codes).sum() == max(1, round(share * 300))
        np.testing.assert_array_equal(labels, move_labels(codes, share, near, seed=1))
    near = move_labels(codes, 0.9, classes, seed=2)
    assert np.abs(near - codes).max() == 3  # at the end of the row, the third nearest class is three away
    assert np.abs(near - codes)[codes == 2].max() == 2
    anywhere = move_labels(codes, 0.9, None, seed=2)
    assert np.abs(anywhere - codes).max() == 5


def test_every_way_sees_the_same_moves_and_rivals_are_asked_once(sample, monkeypatch):
    seen = []

    def spy(X, labels):
        seen.append(labels)
        return {"datalab": np.random.default_rng(0).random(len(labels))}

    monkeypatch.setitem(RIVALS, "datalab", spy)
    task = LabelNoise(shares=[0.05, 0.2], rivals=["datalab"])
    first, second = list(task(sample, NNK)), list(task(sample, KNN))
    assert len(seen) == 4 and [s.method for s in first] == ["datalab", None] * 4
    assert [(s.metric, s.level) for s in second] == [
        ("noise_near", 5), ("noise_near", 20), ("noise_uniform", 5), ("noise_uniform", 20)
    ]  # fmt: skip
    chance = {5: 15 / 300, 20: 60 / 300}
    for score in second:
        assert score.value > 3 * chance[score.level]
    assert all(s.value > r.value for s, r in zip(second, first[::2], strict=True))
    assert first[0].more == {"weights": None} and second[0].more == {}


def test_the_real_rivals_rank_moved_labels_first(sample):
    pytest.importorskip("cleanlab")
    task = LabelNoise(kinds=["uniform"], shares=[0.1])
    scores = {s.method: s.value for s in task(sample, NNK)}
    assert set(scores) == {"datalab", "regression_margin", "regression_confidence", None}
    assert min(scores.values()) > 0.5


def test_labels_that_people_got_wrong_are_read_from_a_file(sample, tmp_path):
    noisy = np.asarray(sample.labels).copy()
    wrong = np.arange(0, len(noisy), 10)
    noisy[wrong] = np.roll(noisy, len(noisy) // 3)[wrong]
    share = float(np.mean(noisy != sample.labels))
    people = np.zeros(sample.total, dtype=noisy.dtype)  # of all rows of the data set
    people[sample.nodes] = noisy
    np.save(tmp_path / "people.npy", people)
    task = LabelNoise(kinds=[], rivals=["logistic_regression"], noisy_labels=str(tmp_path / "people.npy"))
    scores = list(task(sample, NNK))
    assert {s.metric for s in scores} == {"noise_human"} and {s.level for s in scores} == {round(100 * share)}
    assert scores[-1].method is None and scores[-1].value > 0.8
    people[sample.nodes] = sample.labels
    for bad, says in ((people, "none of them wrong"), (people + 90, "no label of the data set")):
        np.save(tmp_path / "bad.npy", bad)
        with pytest.raises(ValueError, match=says):
            list(LabelNoise(kinds=[], rivals=[], noisy_labels=str(tmp_path / "bad.npy"))(sample, NNK))


def test_bad_settings():
    with pytest.raises(ValueError, match="kinds must be 'near' or 'uniform'; got 'far'"):
        LabelNoise(kinds=["far"])
    with pytest.raises(ValueError, match=r"rivals must be .*; got 'magic'"):
        LabelNoise(rivals=["magic"])
    with pytest.raises(ValueError, match=r"share must lie between 0 and 1; got 1\.5"):
        move_labels(np.array([0, 0, 1, 1]), 1.5, None, 0)
    with pytest.raises(ValueError, match="at least 2 classes"):
        move_labels(np.zeros(4, int), 0.5, None, 0)
    with pytest.raises(ValueError, match="a class of at least 5 samples; the largest has 4"):
        LabelNoise().check(np.array([4, 2]))
