import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from asbc.report.command import PAGE, main, make_report
from asbc.report.evidence import read_evidence
from asbc.report.names import listed
from asbc.report.page import GLOSSARY, SubjectReport, summarize
from asbc.report.verdicts import caveats, judge
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.results import ResultsError
from tests.commands import run
from tests.report.small import fail_run, rows_of, write_run

BOTH = {"knn": 0.5, "nnk_sigma": 0.6}
VOID = {"meta", "img", "br"}


class Checker(HTMLParser):
    """Refuses tags that are not closed in turn; keeps ids, links, resources and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.resources, self.text = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        assert tag != "script" and not any(name.startswith("on") for name in given)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a":
            self.links.append(given["href"])
        elif "src" in given or "href" in given:
            resource = given.get("src") or given.get("href")
            if not resource.startswith(("#", "data:")):  # marks and pixels of a figure are in the page
                self.resources.append(resource)
        if tag == "img":
            assert given["alt"]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page(outputs, tmp_path_factory):
    return make_report([outputs], tmp_path_factory.mktemp("report"), pdf=True)


def test_the_page_is_whole_by_itself(page):
    text = page.read_text()
    found = Checker(text)
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    assert not found.resources and text.count('<svg role="img" aria-label=') >= 15
    assert not re.findall(r"url\((?!#)|@import|https?://", text)


def test_the_page_shows_every_experiment_claim_and_setting(page, subject):
    found = Checker(page.read_text())
    words = " ".join(found.text)
    assert "Not run" not in words and "Not finished" not in words and "not run" not in words
    for name in subject.studies:
        assert f"{name}-{subject.slug}" in found.ids and EXPERIMENTS[name].heading in words
    for claim in judge(subject):
        assert claim.text in words and claim.verdict in words
    assert "0.607" in words and "gamma: 1.5" in words
    assert all(word in words for word in GLOSSARY)


def test_figures_lie_beside_the_page(page):
    names = {path.name for path in (page.parent / "figures" / "clouds-files").iterdir()}
    for stem in ("fig1_regimes", "fig2_alignment", "fig3_loo", "fig4_lp", "table3_gamma", "regret", "k_cand", "n_grid"):
        assert {f"{stem}.svg", f"{stem}.png", f"{stem}.pdf"} <= names


def test_part_of_the_experiments_is_a_report_that_says_what_is_missing(tmp_path):
    write_run(tmp_path / "runs", "loo", rows_of(BOTH), finish=False)
    page = make_report([tmp_path])
    assert page == tmp_path / "report" / PAGE
    words = " ".join(Checker(page.read_text()).text)
    assert "asbc experiment=regret" in words and "asbc experiment=loo" not in words
    assert "Not finished:" in words


def test_the_page_opens_with_two_sentences(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH))
    write_run(tmp_path, "lp", rows_of({"knn": 0.6, "nnk_sigma": 0.6}, metric="lp", levels=(1,)))
    subject = read_evidence([tmp_path]).subjects[0]
    first, second = summarize([SubjectReport(subject)])
    assert re.match(
        r"On made · up, NNK-σ is recommended for “Vote of the neighbours” \(0\.\d+, \+0\.\d+ over kNN\)", first
    )
    assert first.endswith(", and kNN is as good as any graph for “Label propagation, 1 label per class”.")
    assert re.match(r"Of 9 tests of the paper's claims, the verdict is .*“not run” in \d\.$", second)
    first, _ = summarize([SubjectReport(replace(subject, encoder=name)) for name in ("a", "b", "c")])
    assert "NNK-σ is recommended in 3 of 6 comparisons of graphs (kNN in 3)." in first


def test_several_data_sets_stand_side_by_side(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH))
    other = [row | {"dataset": "<b>other</b>"} for row in rows_of(BOTH)]
    write_run(tmp_path, "loo", other, dataset="<b>other</b>")
    text = make_report([tmp_path]).read_text()
    Checker(text)
    assert "side by side" in text and "&lt;b&gt;other" in text and "<b>" not in text


def test_methods_that_most_data_sets_have_come_first(tmp_path):
    first = {"knn": 0.8, "self_tuning_nnk": 0.9, "nnk_sigma": 0.95}
    for name, accuracy in (("a", first), ("b", {"knn": 0.8, "nnk_sigma": 0.8}), ("c", {"knn": 0.7, "nnk_sigma": 0.9})):
        rows = [row | {"dataset": name} for row in rows_of(accuracy)]
        write_run(tmp_path, "loo", rows, dataset=name)
    text = make_report([tmp_path]).read_text()
    (matrix,) = re.findall(r'<table class="matrix">.*?</table>', text, re.S)
    heads = re.findall(r"<th>(.*?)</th>", matrix)
    assert heads == ["LOO", "kNN", "NNK‑σ", "self tuning (NNK)"]
    # What is equal has no sign.
    assert "<small>0.000</small>" in matrix and "<small>+0." in matrix and "0.000</small>" in matrix
    assert "−0.000" not in matrix and "+0.000" not in matrix


def test_the_same_results_give_the_same_page(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH))
    assert make_report([tmp_path], tmp_path / "a").read_bytes() == make_report([tmp_path], tmp_path / "b").read_bytes()


def test_bad_results_leave_an_earlier_report_as_it_was(tmp_path, capsys):
    run = write_run(tmp_path, "loo", rows_of(BOTH))
    page = make_report([tmp_path])
    before = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    (run / "results.parquet").write_bytes(b"torn")
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path)])
    assert stop.value.code == 1 and "damaged" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()} == before


def test_files_of_others_are_not_overwritten(tmp_path):
    write_run(tmp_path / "runs", "loo", rows_of(BOTH))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / PAGE).write_text("my thesis")
    with pytest.raises(ResultsError, match="not written by asbc-report"):
        make_report([tmp_path / "runs"], tmp_path / "mine")
    assert (tmp_path / "mine" / PAGE).read_text() == "my thesis"
    with pytest.raises(ResultsError, match="must name a folder"):
        make_report([tmp_path / "runs"], tmp_path / "mine" / PAGE)


def test_the_command(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH))
    done = run("asbc.report.command", [str(tmp_path)])
    assert done.returncode == 0 and Path(done.stdout.strip()) == tmp_path / "report" / PAGE
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path / "empty")])
    assert stop.value.code == 1 and not list((tmp_path / "empty").iterdir())


def test_a_failed_run_is_listed_with_its_error(tmp_path):
    from asbc.runs.results import Run

    write_run(tmp_path, "loo", rows_of(BOTH))
    with pytest.raises(ValueError, match="boom"), Run(tmp_path, "bad", {}) as run:
        run.begin(experiment="lp", dataset="made", encoder="up")
        raise ValueError("boom")
    words = " ".join(Checker(make_report([tmp_path]).read_text()).text)
    assert "ValueError: boom" in words and "failed" in words


def test_a_failed_experiment_is_called_failed_and_subjects_of_one_name_have_their_own_anchors(tmp_path):
    for fingerprint in ("aaaaaa11", "bbbbbb22"):
        write_run(tmp_path, "loo", rows_of(BOTH), fingerprint=fingerprint)
    fail_run(tmp_path, "lp", fingerprint="aaaaaa11")
    text = make_report([tmp_path], tmp_path / "report").read_text()
    assert "The run failed: RuntimeError: out of luck" in text
    first, second = text.split('<section id="made-up-bbbbbb22">')
    assert '<section id="made-up-aaaaaa11">' in first and "made · up (aaaaaa11)" in first
    assert "<strong>Failed.</strong>" in first and "<strong>Failed.</strong>" not in second
    folders = {p.name for p in (tmp_path / "report" / "figures").iterdir() if p.is_dir()}
    assert folders == {"made-up-aaaaaa11", "made-up-bbbbbb22"}


def test_levels_with_more_candidates_than_classmates_are_named(tmp_path):
    rows = [row | {"samples": level, "level": level} for level in (10, 30, 50) for row in rows_of(BOTH, seed=level)]
    write_run(tmp_path / "a", "loo", rows)
    text = make_report([tmp_path / "a"]).read_text()
    text_of = "a node has more candidates (k_cand = 30) than there are other nodes of its class"
    assert f"At 10 and 30 samples per class {text_of}" in text
    assert "this dominates averages over levels" in text
    write_run(tmp_path / "b", "loo", rows, k_cand=5)
    assert "other nodes of its class" not in make_report([tmp_path / "b"]).read_text()


def test_levels_with_more_candidates_than_classmates_lead_to_the_experiment_that_has_them(tmp_path):
    for k in (5, 60):  # 20 samples per class, no other level
        write_run(tmp_path, "k_cand", rows_of(BOTH), k_cand=k)
    write_run(tmp_path, "loo", [*rows_of(BOTH), *rows_of(BOTH, levels=(40,), samples=40)], k_cand=30)
    (subject,) = read_evidence([tmp_path]).subjects
    found = {one.text.split("k_cand = ")[1][:2]: one for one in caveats(subject) if "k_cand" in one.text}
    assert {k: one.experiment for k, one in found.items()} == {"30": "loo", "60": "k_cand"}
    assert "averages over levels" in found["30"].evidence and "averages" not in found["60"].evidence


def test_an_encoder_with_the_name_of_its_data_set_is_named_once(tmp_path):
    for name in ("sharp", "up"):
        write_run(tmp_path, "loo", rows_of(BOTH), dataset="sharp", encoder=name)
    write_run(tmp_path, "noise", [], dataset="odd", encoder="odd", finish=False)
    page = make_report([tmp_path], tmp_path / "report")
    text = page.read_text()
    assert "sharp · sharp" not in text and "odd · odd" not in text and "<td>odd</td>" in text
    assert '<h2 class="name">sharp</h2>' in text and '<h2 class="name">sharp · up</h2>' in text
    assert {p.name for p in (page.parent / "figures").iterdir() if p.is_dir()} == {"sharp", "sharp-up"}


@pytest.mark.parametrize(
    ("count", "told"), [(1, "a"), (2, "a and b"), (4, "a, b, c and d"), (5, "a, b, c and 2 more"), (0, "")]
)
def test_many_words_are_cut_short(count, told):
    assert listed(list("abcde")[:count], 3) == told


def test_what_applies_to_several_encoders_is_shown_once(tmp_path):
    rule = {"_target_": "asbc.evaluate.Method", "weights": "uniform"}
    settings = {"methods": {"knn": rule, "nnk_sigma": rule}, "neighbors": {"_target_": "asbc.search_neighbors"}}
    for name in ("up", "down"):
        write_run(tmp_path, "loo", rows_of(BOTH), encoder=name, **settings)
    text = make_report([tmp_path], tmp_path / "report").read_text()
    assert text.count("a node has more candidates (k_cand = 30)") == 1 and "(made · up and made · down)" in text
    assert text.count("import asbc\n") == 1
    assert text.count("Same code as for “Vote of the neighbours” on made · up.") == 1
    assert text.count("The rank follows dimMST: Spearman") == 1  # a claim that was not run
