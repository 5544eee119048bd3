"""How far a build has come."""

from asbc.outofcore import progress as module
from asbc.outofcore.progress import Progress


def test_a_step_within_another_is_counted_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    progress = Progress(shown=False)
    with progress.step("tune"):
        now[0] += 1
        with progress.step("train"):
            now[0] += 10
        now[0] += 2
    with progress.step("train"):
        now[0] += 5
    assert progress.seconds == {"tune": 3.0, "train": 15.0}
