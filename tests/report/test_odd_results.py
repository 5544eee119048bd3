"""Whatever `asbc` may have written, the page is made: other names, NaN, empty tables, odd method names, no labels."""

import numpy as np
import pytest

from asbc.evaluate.geometry import pack_density
from asbc.report.command import make_report
from asbc.report.evidence import read_evidence
from asbc.report.figures import draw, draw_figures
from asbc.runs.experiments import EXPERIMENTS
from tests.report.conftest import run_small
from tests.report.small import rows_of, write_run
from tests.report.test_claims import correlations
from tests.report.test_page import Checker

BOTH = {"knn": 0.5, "nnk_sigma": 0.6}


def words_of(folder):
    text = make_report([folder], folder / "page").read_text()
    found = Checker(text)
    assert all(link[1:] in found.ids for link in found.links) and len(set(found.ids)) == len(found.ids)
    return " ".join(found.text)


def test_a_run_under_a_name_of_ones_own_is_shown(tmp_path):
    write_run(tmp_path, "my <run>/1", rows_of(BOTH) + rows_of({"knn": 0.1}, metric="agreement", seed=1), id="abc")
    words = words_of(tmp_path)
    assert "my <run>/1" in words and "Figure 3" in words and "agreement" in words and "Which graph" in words


def test_nan_and_infinite_values_leave_a_gap(tmp_path):
    rows = rows_of({**BOTH, "nnk_fixed": 0.7}, levels=(10, 20))
    for row in rows:
        if row["method"] == "nnk_fixed" or (row["level"] == 10 and row["trial"] == 0):
            row["value"] = np.nan if row["trial"] else np.inf
    write_run(tmp_path, "loo", rows)
    mst = {("mst", "mst"): np.nan, ("mst", "levina_bickel"): 0.5}
    write_run(tmp_path, "alignment", correlations(mst))
    words = words_of(tmp_path)
    assert "Leave-one-out" in words and "one of the two is constant" in words


def test_a_run_whose_table_is_empty_is_listed(tmp_path):
    write_run(tmp_path, "loo", rows_of(BOTH))
    write_run(tmp_path, "lp", [], id="empty")
    assert "empty" in words_of(tmp_path)


@pytest.mark.parametrize("name", ["$", "a$b$c", r"$\frac{", "_", "<i>x</i>", "tuned"])
def test_any_name_of_a_method_can_be_drawn(tmp_path, name):
    write_run(tmp_path, "loo", rows_of({"knn": 0.5, name: 0.6}))
    assert name.replace("_", " ").strip() in words_of(tmp_path)


def test_a_single_method_is_shown_without_comparisons(tmp_path):
    write_run(tmp_path, "loo", rows_of({"mine": 0.5}))
    assert "No run compares two graphs" in words_of(tmp_path)


def test_without_labels_the_page_shows_what_there_is_and_offers_what_can_work(tmp_path, clouds):
    path = tmp_path / "plain.npy"
    np.save(path, clouds[0][:60].astype(np.float32))
    run_small("regimes", path, tmp_path / "out", "evaluate.regimes.n_scales=5")
    words = words_of(tmp_path / "out")
    assert "have no labels" in words and "Figure 1" in words and "not run" in words
    for name, record in EXPERIMENTS.items():
        if name != "regimes":
            offered = record.suggested and not record.needs_labels
            assert (f"experiment={name} " in words + " ") == offered, name
    assert "Needs labels, and there are none." in words


def test_records_say_what_needs_labels_as_the_configs_do():
    from hydra import compose, initialize_config_dir
    from hydra.utils import get_class

    from asbc.configs import conf_dir

    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        for name, record in EXPERIMENTS.items():
            tasks = compose("config", overrides=[f"experiment={name}"]).evaluate.values()
            blind = [not get_class(task._target_).needs_labels for task in tasks]
            assert any(blind) == (not record.needs_labels), name


def test_all_samples_come_last_and_uneven_classes_are_told(tmp_path):
    rows = rows_of(BOTH, levels=(0, 10))
    for row in rows:
        row |= {"samples": row["level"], "classes": 7, "unlabelled": 3, "short_classes": 2 if row["level"] else 0}
    rows += [row | {"metric": "loo_balanced", "value": 0.3, "scored": None, "right": None} for row in rows]
    write_run(tmp_path, "loo", rows)
    (subject,) = read_evidence([tmp_path]).subjects
    axes = draw(draw_figures(subject.studies["loo"])[0].panels, 2).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["10", "all"]
    words = words_of(tmp_path)
    assert "class‑balanced" in words and "2 at 10" in words and "3 nodes without a label" in words


def test_figure_2_shows_the_nodes_where_the_rows_have_them(tmp_path):
    rng = np.random.default_rng(0)
    d = rng.uniform(2, 12, 300)
    rows = correlations({("mst", "mst"): 0.9, ("mst", "levina_bickel"): 0.5})
    write_run(tmp_path / "old", "alignment", rows)
    for row in list(rows):
        if row["metric"] == "spearman":
            row["density"] = pack_density(0.9 * d + 1, d)
            rows += [row | {"metric": "slope", "value": 0.9}, row | {"metric": "intercept", "value": 1.0}]
    write_run(tmp_path / "new", "alignment", rows)
    old, new = (
        draw_figures(read_evidence([tmp_path / name]).subjects[0].studies["alignment"])[0] for name in ("old", "new")
    )
    assert len(old.panels) == 2 and len(new.panels) == 4
    first, second = draw(new.panels, 2).axes[:2]
    assert "dimMST" in first.get_title("left") and "Levina" in second.get_title("left")
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["r = d", "fit, slope 0.90"]
    assert first.collections[0].get_array().sum() == 4 * 300


def test_several_encoders_share_one_page(tmp_path):
    for number, encoder in enumerate(("one", "two", "three")):
        for experiment, levels in (("loo", (10, 20)), ("lp", (1, 5))):
            rows = rows_of({**BOTH, "nnk_fixed": 0.7 + 0.05 * number}, metric=experiment, levels=levels, seed=number)
            rows = [row | {"encoder": encoder} for row in rows]
            write_run(tmp_path, experiment, rows, fingerprint=f"{encoder}-{number}", encoder=encoder)
    words = words_of(tmp_path)
    assert "Which graph for which embeddings?" in words and "The claims, side by side" in words
    assert words.count("made · one") >= 5 and "Figure 3. Leave-one-out accuracy, side by side" in words
    names = {path.name for path in (tmp_path / "page" / "figures").iterdir() if path.is_file()}
    assert names == {"fig3_loo_side_by_side.svg", "fig4_lp_side_by_side.svg"}
