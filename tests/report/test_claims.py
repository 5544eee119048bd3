import pytest

from asbc.report.evidence import read_evidence
from asbc.report.verdicts import FAILS, HOLDS, NOT_RUN, UNKNOWN, combine, judge
from tests.report.small import rows_of, write_run

CHAIN = ["knn", "knn_sigma_alpha", "nnk_fixed", "nnk_sigma"]


def verdicts(folder):
    (subject,) = read_evidence([folder]).subjects
    return {claim.text: claim for claim in judge(subject)}


def one(folder, start):
    (claim,) = [claim for text, claim in verdicts(folder).items() if text.startswith(start)]
    return claim


@pytest.mark.parametrize(
    "accuracy, verdict",
    [
        ([0.5, 0.55, 0.6, 0.65], HOLDS),
        ([0.5, 0.55, 0.65, 0.6], FAILS),
        ([0.65, 0.6, 0.55, 0.5], FAILS),
        ([0.5, 0.55, 0.6, 0.6], UNKNOWN),
    ],
)
def test_the_order_of_methods(tmp_path, accuracy, verdict):
    write_run(tmp_path, "loo", rows_of(dict(zip(CHAIN, accuracy, strict=True)), levels=(10, 20)))
    claim = one(tmp_path, "LOO: kNN < kNN-σ-α")
    assert claim.verdict == verdict and claim.of_paper and "NNK-σ − NNK-fixed" in claim.evidence
    assert one(tmp_path, "LP: kNN < kNN-σ-α").verdict == NOT_RUN


def test_an_order_without_all_its_methods_was_not_run(tmp_path):
    write_run(tmp_path, "loo", rows_of({"knn": 0.5, "nnk_sigma": 0.9}))
    claim = one(tmp_path, "LOO: kNN < kNN-σ-α")
    assert claim.verdict == NOT_RUN and "Not all" in claim.evidence


def correlations(values, trials=4):
    """Rows of an alignment; values by (target, estimator)."""
    rows = []
    for (target, estimator), value in values.items():
        for metric, base in (("spearman", value), ("rank_median", 9.5), ("dimension_median", 10.0)):
            rows += [
                dict(
                    dataset="made", encoder="up", method="nnk_sigma", samples=20, level=20, trial=t, metric=metric,
                    value=base + 0.001 * t, target=target, estimator=estimator, seconds=0.1,
                )
                for t in range(trials)
            ]  # fmt: skip
    return rows


def test_alignment_is_judged_against_the_papers_range_and_by_its_control(tmp_path):
    mst, lb = "mst", "levina_bickel"
    write_run(
        tmp_path / "a", "alignment", correlations({(mst, mst): 0.9, (mst, lb): 0.5, (lb, mst): 0.3, (lb, lb): 0.9})
    )
    found = tmp_path / "a"
    assert one(found, "The rank follows dimMST: ").verdict == HOLDS
    assert one(found, "The rank follows dimMST more").verdict == HOLDS
    control = one(found, "Control")
    assert control.verdict == FAILS and "whichever estimate it is given" in control.evidence and not control.of_paper
    assert one(found, "At γ = 1").verdict == HOLDS
    write_run(
        tmp_path / "b", "alignment", correlations({(mst, mst): 0.7, (mst, lb): 0.8, (lb, mst): 0.9, (lb, lb): 0.8})
    )
    found = tmp_path / "b"
    assert one(found, "The rank follows dimMST: ").verdict == FAILS
    assert one(found, "The rank follows dimMST more").verdict == FAILS
    assert one(found, "Control").verdict == HOLDS


def test_gamma_is_judged_by_bandwidth_and_by_accuracy(tmp_path):
    for gamma, accuracy, sigma in ((0.5, 0.5, 1.4), (1.0, 0.6, 1.0), (1.5, 0.6, 0.8), (2.0, 0.7, 0.7)):
        rows = rows_of({"nnk_sigma": accuracy})
        rows += [row | {"metric": "sigma_median", "value": sigma, "scored": None, "right": None} for row in rows]
        write_run(tmp_path, "gamma", rows, bandwidth={"gamma": gamma, "n_grid": 12})
    assert one(tmp_path, "Below γ = 0.75").verdict == HOLDS
    flat = one(tmp_path, "From γ = 1")
    assert flat.verdict == FAILS and "γ = 1.5 +0.0000 in every trial" in flat.evidence


def test_a_change_shows_although_another_value_has_only_accuracies_of_1(tmp_path):
    for gamma, accuracy in ((1.0, 1.1), (1.5, 1.1), (2.0, 0.7)):
        write_run(tmp_path, "gamma", rows_of({"nnk_sigma": accuracy}), bandwidth={"gamma": gamma, "n_grid": 12})
    flat = one(tmp_path, "From γ = 1")
    assert flat.verdict == FAILS and "All accuracies are 1" not in flat.evidence


def test_what_was_not_run_is_called_so_and_not_cannot_tell(tmp_path):
    write_run(tmp_path, "k_cand", rows_of({"knn": 0.5}))
    claims = verdicts(tmp_path).values()
    assert {claim.verdict for claim in claims} == {NOT_RUN} and all(claim.verdict == NOT_RUN for claim in claims)


@pytest.mark.parametrize("search, rest, verdict", [(3.0, 1.0, HOLDS), (1.0, 3.0, FAILS), (None, 1.0, NOT_RUN)])
def test_the_cost_of_the_search_is_measured_by_the_runs(tmp_path, search, rest, verdict):
    rows = [
        row | {"search_seconds": search and search * (1 + 0.1 * row["trial"]), "build_seconds": (search or 0) + rest}
        for row in rows_of({"knn": 0.5, "nnk_sigma": 0.6})
    ]
    write_run(tmp_path, "loo", rows)
    claim = one(tmp_path, "Neighbour search dominates")
    assert claim.verdict == verdict and ("of the whole" in claim.evidence) == (search is not None)


def timed(search, trials=5, **columns):
    """Rows with the seconds of a search, trial by trial, and one second for the rest."""
    return [
        row | {"search_seconds": search(row["trial"]), "build_seconds": search(row["trial"]) + 1.0}
        for row in rows_of({"knn": 0.5, "nnk_sigma": 0.6}, trials=trials, **columns)
    ]


def test_a_search_that_all_trials_share_was_timed_once(tmp_path):
    write_run(tmp_path / "a", "loo", timed(lambda trial: 3.0, samples=0, level=0))
    claim = one(tmp_path / "a", "Neighbour search dominates")
    assert claim.verdict == UNKNOWN and "Too few searches were timed" in claim.evidence and "[" not in claim.evidence
    # Smaller subsamples that were searched anew in every trial say more.
    smaller = timed(lambda trial: 0.2 + 0.01 * trial, nodes=70)
    write_run(tmp_path / "b", "loo", [*timed(lambda trial: 3.0, samples=0, level=0, nodes=400), *smaller])
    claim = one(tmp_path / "b", "Neighbour search dominates")
    assert claim.verdict == FAILS and "on 70 nodes: the search takes 0.22 s" in claim.evidence


def test_without_labels_a_search_that_was_timed_often_decides(tmp_path):
    """All trials are then on the whole data set: of one command they may share a search, runs of several do not."""
    whole = {"samples": 0, "level": 0}
    write_run(tmp_path, "ablation", timed(lambda trial: 3.0, **whole))
    claim = one(tmp_path, "Neighbour search dominates")
    assert claim.verdict == UNKNOWN and "`asbc experiment=ablation rerun=true` on its own" in claim.evidence
    for gamma, seconds in ((0.5, 0.2), (1.0, 0.25), (1.5, 0.3)):
        write_run(tmp_path, "gamma", timed(lambda trial, s=seconds: s, **whole), bandwidth={"gamma": gamma})
    claim = one(tmp_path, "Neighbour search dominates")
    assert (claim.verdict, claim.experiment) == (FAILS, "gamma")
    assert "the search takes 0.25 s and the rest, from dimension to graph, 1.00 s" in claim.evidence


def test_real_results_get_a_verdict_on_everything_that_was_run(subject):
    claims = judge(subject)
    assert not any(claim.verdict == NOT_RUN for claim in claims)
    assert {claim.verdict for claim in claims} <= {HOLDS, FAILS, UNKNOWN}
    assert "the search takes" in next(claim for claim in claims if claim.text.startswith("Neighbour search")).evidence
    regimes = next(claim for claim in claims if claim.experiment == "regimes")
    assert regimes.verdict == HOLDS


def test_verdicts_are_combined():
    assert combine([HOLDS, HOLDS]) == HOLDS
    assert combine([HOLDS, UNKNOWN]) == combine([]) == UNKNOWN
    assert combine([UNKNOWN, FAILS, HOLDS]) == FAILS


@pytest.mark.parametrize(
    ("accuracy", "trials", "verdict", "why"),
    [
        (0.6, 5, HOLDS, "count as the same."),
        (0.6, 2, UNKNOWN, "Fewer than 3 trials are too few"),
        (1.1, 5, UNKNOWN, "All accuracies are 1"),
    ],
)
def test_that_nothing_changes_is_said_only_where_a_change_could_have_shown(tmp_path, accuracy, trials, verdict, why):
    for gamma, n_grid in ((1.0, 12), (1.5, 12), (1.0, 24)):
        rows = rows_of({"nnk_sigma": accuracy}, trials=trials)
        for experiment in ("gamma", "n_grid"):
            if gamma == 1.0 or experiment == "gamma":
                write_run(tmp_path, experiment, rows, bandwidth={"gamma": gamma, "n_grid": n_grid})
    for start in ("From γ = 1", "Twelve grid points"):
        claim = one(tmp_path, start)
        assert claim.verdict == verdict and why in claim.evidence
