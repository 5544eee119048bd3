import io
import time

import pytest

from asbc.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_one_line_per_step_where_output_is_piped(capsys):
    progress = Progress()
    with progress.step("search", total=4, done=1) as advance:
        advance()
        advance(2)
    with progress.step("join"):
        pass
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(",")[0] for line in lines] == ["search: 4 of 4 blocks", "join: done"]


def test_silent_progress_times_steps_and_prints_nothing(capsys):
    progress = Progress(shown=False)
    with progress.step("outer"):
        time.sleep(0.02)
        with progress.step("inner"):
            time.sleep(0.05)
    assert capsys.readouterr() == ("", "")
    assert progress.seconds["inner"] >= 0.05
    assert progress.seconds["outer"] < progress.seconds["inner"] + 0.02 + 0.05  # the inner step is not counted twice


def test_a_terminal_gets_a_bar_and_the_same_last_lines(monkeypatch):
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    progress = Progress()
    with progress.step("rows", total=2) as advance:
        advance(1, "first block")
        with progress.step("inside", total=1) as deeper:
            deeper()
        advance()
    text = terminal.getvalue()
    assert "rows: 2 of 2 blocks" in text and "inside: 1 of 1 blocks" in text and "\x1b[" in text
