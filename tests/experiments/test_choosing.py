"""The page on which graph to choose is what its script writes, and it marks ties."""

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
    """Return invented results in which the last method is best, and the one before it is statistically tied."""
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


def test_the_page_is_written_from_rows(script):
    metrics = [(metric, level or 30) for metric, level, *_ in script["TASKS"]]
    table = pd.concat([rows(list(script["NAMES"]), metrics, data) for data in ("first", "cifar100")])
    written = script["page"](table)
    line = next(text for text in written.splitlines() if text.startswith("| Vote of the neighbours |"))
    assert line == "| Vote of the neighbours | `NeighborVote()`: NNK, spectral rule | 0.775 | 2 of 2 | blend, 0.775 |"
    assert "| graph | mean | first | cifar100 files |" in written
    assert written.count("≈") == 1 + 2 * len(script["TASKS"])  # one explains the sign
    assert written.count("<details>") == written.count("</details>") == len(script["TASKS"])


def test_the_page_in_docs_is_written_by_the_script(script):
    for template in (script["TEXT"], script["NOISE"]):
        assert all(part.strip() in PAGE for part in re.split(r"\{\w+\}", template))
    titles = [title for _, _, title, *_ in script["TASKS"]]
    assert re.findall("<summary>(.*)</summary>", PAGE) == titles
