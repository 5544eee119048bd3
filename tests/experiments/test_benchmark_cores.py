"""What the other cores bring: every step is timed on one thread and on all, and the table comes from the figures."""

import json
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def cores(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    import benchmark_cores

    yield benchmark_cores
    for name in ("benchmark_cores", "peers_lines", "peers_table"):
        sys.modules.pop(name, None)


def test_every_step_is_timed_on_one_thread_and_on_all(cores, monkeypatch, tmp_path, capsys):
    import numba

    before = numba.get_num_threads()
    figures, page = tmp_path / "cores.json", tmp_path / "page.md"
    monkeypatch.setattr(sys, "argv", ["", "--sizes", "300", "--rounds", "2", "--json", str(figures)])
    cores.main()
    assert "whole graph" in capsys.readouterr().out
    lines = json.loads(figures.read_text())["lines"]
    assert len({line["step"] for line in lines}) == len(lines) == 5
    assert all(len(line[kind]) == 2 and min(line[kind]) > 0 for line in lines for kind in ("alone", "together"))
    assert numba.get_num_threads() == before

    page.write_text("Before.\n\n{}\n\nold\n\n{}\n\nAfter.\n".format(*cores.MARKS))
    monkeypatch.setattr(sys, "argv", ["", "--json", str(figures), "--docs", str(page)])
    cores.main()
    written = page.read_text()
    assert written.startswith("Before.") and written.endswith("After.\n") and "old" not in written
    assert all(f"| 300 | {line['step']} |" in written for line in lines)
