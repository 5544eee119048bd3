"""Tables of large builds, from what builds wrote about themselves."""

import json
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def extrapolate(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    import extrapolate

    yield extrapolate
    for name in ("extrapolate", "peers_table"):
        sys.modules.pop(name, None)


def written(folder, n, seconds, probes):
    """A folder with the two files that a build of n nodes ends with."""
    folder.mkdir()
    total = {"seconds": seconds, "total_seconds": sum(seconds.values()), "cores": 2, "peak_bytes": 3 * 2**30}
    recall = {"value": 0.985, "target": 0.98}
    found = {"n": n, "d": 8, "k": 30, "dtype": "float16", "recall": recall, "edges": 16 * n}
    used = {"search_used": {"search": "ivf", "options": {"n_lists": 100, "n_probe": probes}}}
    (folder / "timing.json").write_text(json.dumps(total))
    (folder / "manifest.json").write_text(json.dumps(found | used))
    return folder


def test_larger_builds_are_reckoned_with_the_growth_that_was_measured(tmp_path, extrapolate):
    stages = ("train", "assign", "neighbors", "rows", "graph", "join")
    small = written(tmp_path / "small", 10**6, dict(zip(stages, (1, 10, 20, 30, 4, 2), strict=True)), 4)
    large = written(tmp_path / "large", 10**7, dict(zip(stages, (50, 100, 2000, 300, 20, 20), strict=True)), 8)
    read = extrapolate.Build.read
    exponents = {stage: extrapolate.exponent(stage, read(small), read(large)) for stage in stages}
    # A stage of one second tells nothing, and none grows more slowly than the nodes.
    assert exponents == pytest.approx({"train": 1, "assign": 1, "neighbors": 2, "rows": 1, "graph": 1, "join": 1})
    growth = extrapolate.table_of_growth(read(small), read(large))
    assert "| neighbors | 20.0 s | 2000.0 s | 100.0 | 31.6 | 3.16 |" in growth
    assert "train" not in growth
    larger = extrapolate.at_size(10**8, read(small), read(small), read(large))
    hours = (100 * 1 + 100 * 10 + 100**2 * 20) * 2 / 3600  # train, assign, neighbors on two cores
    assert larger["search"] == f"{hours:,.0f} core-hours"
    assert larger["of them scanned per node"] == "16"


def test_tables_take_their_places_in_a_page(tmp_path, extrapolate, monkeypatch):
    seconds = {"assign": 10.0, "neighbors": 20.0, "rows": 30.0, "graph": 4.0}
    folders = [
        written(tmp_path / name, n, seconds, 4) for name, n in (("base", 10**6), ("small", 10**6), ("large", 10**7))
    ]
    page = tmp_path / "page.md"
    page.write_text("".join(f"{first}\nold\n{last}\n" for first, last in extrapolate.MARKS.values()))
    monkeypatch.setattr(
        sys, "argv", ["extrapolate.py", str(folders[0]), "--growth", *map(str, folders[1:]), "--docs", str(page)]
    )
    extrapolate.main()
    text = page.read_text()
    assert "old" not in text
    assert "| 10,000,000 x 8 float16 | 64 s | 30 s | 30 s | 4 s | 3.0 GiB | 0.9850 (asked 0.98) | 4 of 100 |" in text
    assert "| 1,000,000 | 100,000,000 | 1,000,000,000 |" in text
