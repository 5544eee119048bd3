"""The workspace that W&B shows."""

import pytest

from asbc.runs.experiment import run
from asbc.runs.results import collect
from tests.runs.offline import config

pytest.importorskip("wandb")
pytestmark = pytest.mark.usefixtures("no_account")


def test_the_dashboard_has_curves_an_encoder_and_the_ablation(tmp_path):
    pytest.importorskip("wandb_workspaces")
    from asbc.runs.dashboard import workspace

    for gamma in (0.5, 1):
        run(config(tmp_path, "logger=none", "name=gamma", f"bandwidth.gamma={gamma}", "evaluate=[loo,health]"))
    run(config(tmp_path, "logger=none", "name=ablation"))
    assert collect(tmp_path)["experiment"].nunique() == 2
    (section,) = workspace(tmp_path, "someone", "asbc").sections
    assert section.name == "pixels"
    titles = [panel.title for panel in section.panels]
    assert "loo of nnk_sigma against gamma" in titles and "rank_median of nnk_sigma against gamma" in titles
    bars = section.panels[titles.index("ablation: loo")]
    assert [metric.name for metric in bars.metrics] == ["pixels/loo/knn", "pixels/loo/nnk_sigma"]
    curve = section.panels[titles.index("loo of nnk_sigma against gamma")]
    assert curve.x.name == "gamma" and curve.y.name == "pixels/loo/nnk_sigma"
