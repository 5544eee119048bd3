"""The page on which graph to choose is what its script writes, and it says where the data cannot tell."""

import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "choosing.md").read_text()


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "experiments"))
        return runpy.run_path(str(ROOT / "experiments" / "choosing.py"), run_name="choosing")


def rows(methods, metrics, data):
    """Made-up results in which the last method is ahead, and the one before it cannot be told from it."""
    rng = np.random.default_rng(0)
    luck = rng.normal(0, 0.001, 6)
    out = []
    for metric, level in metrics:
        for rank, method in enumerate(methods):
            ahead = min(rank, len(methods) - 2) / 20
            out += [
                {
                    "dataset": data, "encoder": "files", "samples": 30, "level": level, "trial": t, "method": method,
                    "metric": metric, "value": 0.5 + ahead + 0.01 * t + (luck[t] if rank == len(methods) - 2 else 0),
                }
                for t in range(6)
            ]  # fmt: skip
    return pd.DataFrame(out)


def test_the_page_is_made_of_rows(script):
    metrics = [(metric, level or 30) for metric, level, _ in script["TASKS"]]
    table = pd.concat([rows(list(script["NAMES"]), metrics, data) for data in ("first", "second")])
    kinds = [("noise_near", 5), ("noise_uniform", 20)]
    moved = [rows(["datalab", "nnk_sigma", "blend"], kinds, "first")]
    made = script["page"](table, moved)
    line = next(text for text in made.splitlines() if text.startswith("| Votes |"))
    assert line == "| Votes | NNK, spectral rule, blend | none |"
    assert made.count("≈") == 1 + 2 * len(script["TASKS"])  # one is the legend's
    assert "votes: 2 of 2 sets" in made and "propagation from 5 labels per class: 0 of 2 sets" in made
    assert "| near, 5% |" in made and "| uniform, 20% |" in made
    # The page that is there was made by the same script.
    heads = re.compile(r"^#+ .*$", re.M)
    assert heads.findall(made) == heads.findall(PAGE)
    fixed = [part.strip() for part in re.split(r"\{\w+\}", script["TEXT"])]
    assert all(part in PAGE for part in fixed)
