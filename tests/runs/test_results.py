import json
import logging
import os
import shutil
import threading

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from asbc.files import write_whole
from asbc.runs.identity import run_id
from asbc.runs.results import ResultsError, Run, collect, read_rows, read_status, runs
from asbc.runs.sealed import FORMAT, write_rows
from asbc.version import __version__


def rows(unit, count=3):
    return [dict(method="knn", level=unit, trial=t, metric="loo", value=unit + t / 10) for t in range(count)]


def test_run_id_depends_on_values_and_data_not_on_order():
    one = run_id({"a": 1, "b": {"c": [1, 2], "d": None}}, "data")
    assert one == run_id({"b": {"d": None, "c": [1, 2]}, "a": 1}, "data")
    assert len({one, run_id({"a": 2, "b": {"c": [1, 2], "d": None}}, "data"), run_id({"a": 1}, "data")}) == 3
    assert one == run_id({"a": 1.0, "b": {"c": [1.0, 2], "d": None}}, "data")
    assert one != run_id({"a": 1, "b": {"c": [1, 2], "d": None}}, "other data")


def test_a_run_from_start_to_finish(tmp_path):
    with Run(tmp_path, "abc", {"seed": 0}) as run:
        assert not run.finished
        assert run.begin(experiment="loo") == set()
        run.append("u1", rows(1))
        assert read_status(run.path)["state"] == "running"
        run.append("u2", rows(2))
        frame = run.finish()
    assert len(frame) == 6
    status = read_status(tmp_path / "abc")
    assert status["state"] == "finished" and status["rows"] == 6 and status["experiment"] == "loo"
    assert not (tmp_path / "abc" / "parts").exists()
    pd.testing.assert_frame_equal(collect(tmp_path), frame)
    assert "seed: 0" in (tmp_path / "abc" / "config.yaml").read_text()
    with Run(tmp_path, "abc") as again:
        assert again.finished


def test_a_failed_run_keeps_its_rows_and_its_traceback(tmp_path):
    with pytest.raises(ZeroDivisionError), Run(tmp_path, "abc") as run:
        run.begin()
        run.append("u1", rows(1))
        _ = 1 / 0
    status = read_status(tmp_path / "abc")
    assert status["state"] == "failed" and "_ = 1 / 0" in status["traceback"]
    assert len(collect(tmp_path)) == 3
    with pytest.raises(ResultsError, match="no results"):
        collect(tmp_path, finished_only=True)
    with Run(tmp_path, "abc") as run:
        assert run.begin() == {"u1"}
        assert "traceback" not in run.status and run.status["attempt"] == 2
        run.append("u2", rows(2))
        assert len(run.finish()) == 6


def test_ctrl_c_is_not_a_failure(tmp_path):
    with pytest.raises(KeyboardInterrupt), Run(tmp_path, "abc") as run:
        run.begin()
        raise KeyboardInterrupt
    assert read_status(tmp_path / "abc")["state"] == "interrupted"


@pytest.mark.parametrize("moment", ["before the status", "before the parts go"])
def test_a_kill_while_finishing_loses_and_doubles_nothing(tmp_path, monkeypatch, moment):
    class Killed(BaseException):
        pass

    def die(*args, **kwargs):
        raise Killed

    run = Run(tmp_path, "abc").__enter__()
    run.begin()
    run.append("u1", rows(1))
    run.append("u2", rows(2))
    with monkeypatch.context() as patch, pytest.raises(Killed):
        if moment == "before the status":
            patch.setattr(run, "note", die)
        else:
            patch.setattr("asbc.runs.folder.shutil.rmtree", die)
        run.finish()
    run._lock.release()
    assert len(collect(tmp_path)) == 6
    with Run(tmp_path, "abc") as again:
        assert again.finished
        assert len(again.finish()) == 6
    assert read_status(tmp_path / "abc")["state"] == "finished"
    assert not (tmp_path / "abc" / "parts").exists()


def test_rerun_sets_the_old_rows_aside(tmp_path):
    for value in (1, 2, 3):
        with Run(tmp_path, "abc", rerun=True) as run:
            assert run.begin() == set()
            run.append("u", rows(value))
            run.finish()
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == [
        "abc",
        "abc.replaced-1",
        "abc.replaced-2",
    ]
    assert collect(tmp_path)["level"].unique().tolist() == [3]
    assert [p.name for p, _ in runs(tmp_path)] == ["abc"]


def test_a_second_process_says_who_is_at_it_and_waits(tmp_path, caplog):
    found = []
    said = threading.Event()

    class Told(logging.Handler):
        def emit(self, record):
            said.set()

    def second():
        with Run(tmp_path, "abc") as run:
            found.append((run.finished, run.status["state"], len(run.rows())))

    logger, told = logging.getLogger("asbc"), Told()
    logger.addHandler(told)
    try:
        with Run(tmp_path, "abc") as run:
            run.begin()
            thread = threading.Thread(target=second)
            thread.start()
            assert said.wait(60) and not found
            run.append("u", rows(1))
            run.finish()
        thread.join()
    finally:
        logger.removeHandler(told)
    assert found == [(True, "finished", 3)]
    assert f"process {os.getpid()} on {os.uname().nodename} is at work on this run; waiting" in caplog.text


def test_write_whole_leaves_the_old_file_when_writing_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def torn(p):
        p.write_text("ne")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(path, torn)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["file"]


def test_other_formats_and_corrupt_files_are_refused_and_left_alone(tmp_path):
    with Run(tmp_path, "abc") as run:
        run.begin()
        run.append("u1", rows(1))
    part = tmp_path / "abc" / "parts" / "u1.parquet"
    torn = part.read_bytes()[:-20]
    part.write_bytes(torn)
    with pytest.raises(ResultsError, match=r"u1.parquet: damaged, .* rerun=true"):
        collect(tmp_path)
    with pytest.raises(ResultsError, match=r"u1.parquet: damaged, .* rerun=true"), Run(tmp_path, "abc") as run:
        run.begin()
    assert part.read_bytes() == torn

    pq.write_table(pa.table({"x": [1]}), part)
    with pytest.raises(ResultsError, match="format unknown"):
        read_rows(part)

    status = tmp_path / "abc" / "status.json"
    status.write_text(json.dumps({"format": FORMAT + 1}))
    with (
        pytest.raises(ResultsError, match=f"format {FORMAT + 1}, this version .* {FORMAT}"),
        Run(tmp_path, "abc"),
    ):
        pass
    status.write_text("{")
    with pytest.raises(ResultsError, match="not readable"):
        list(runs(tmp_path))
    with pytest.raises(ResultsError, match="no such folder"):
        collect(tmp_path / "nowhere")


def test_columns_of_different_runs_are_joined(tmp_path):
    write_rows(tmp_path / "a.parquet", [dict(value=1.0, c=None, s="x")])
    for name, extra in (("a", {"gamma": 1.0}), ("b", {"k": 15, "note": None})):
        with Run(tmp_path, name) as run:
            run.begin()
            run.append("u", [dict(value=0.5, **extra)])
            run.finish()
    table = collect(tmp_path)
    assert set(table.columns) == {"value", "gamma", "k", "note"} and len(table) == 2


def test_copies_of_parts_and_runs_are_counted_once(tmp_path, caplog):
    with Run(tmp_path, "abc") as run:
        run.begin()
        run.append("u1", rows(1))
        run.append("u2", rows(2))
    parts = tmp_path / "abc" / "parts"
    shutil.copy(parts / "u1.parquet", parts / "u1 (copy).parquet")
    assert len(collect(tmp_path)) == 6
    assert "u1 (copy).parquet: the rows of u1 under another name; left out" in caplog.text
    shutil.copy(parts / "u1.parquet", parts / "u2.parquet")  # in the place of another unit: that one is done again
    with Run(tmp_path, "abc") as run:
        assert run.begin() == {"u1"}
        run.append("u2", rows(2))
        table = run.finish()
    assert sorted(table["level"]) == [1, 1, 1, 2, 2, 2]

    (tmp_path / "backup").mkdir()
    for copy in ("aaa", "zzz", "backup/abc"):
        shutil.copytree(tmp_path / "abc", tmp_path / copy)
    pd.testing.assert_frame_equal(collect(tmp_path), table)
    assert [path.name for path, _ in runs(tmp_path)] == ["abc"]
    assert f"{tmp_path / 'zzz'}: the same run as {tmp_path / 'abc'}; left out" in caplog.text
    pd.testing.assert_frame_equal(collect(tmp_path / "zzz"), table)
    with pytest.raises(ResultsError, match="zzz: holds a copy of the run abc"), Run(tmp_path, "zzz"):
        pass


def test_missing_and_infinite_values_are_kept_as_they_are(tmp_path):
    values = [float("nan"), float("inf"), 0.5]
    with Run(tmp_path, "abc") as run:
        run.begin()
        run.append("u", [dict(method="knn", value=value) for value in values])
        run.finish()
    assert collect(tmp_path)["value"].tolist()[1:] == values[1:] and collect(tmp_path)["value"].isna().sum() == 1


def begun_by(root, version):
    """A run that another version left half done."""
    with Run(root, "abc") as run:
        run.begin()
        run.append("u1", rows(1))
        run.note("running", version=version)


def test_the_half_done_work_of_another_version_is_set_aside(tmp_path, caplog):
    begun_by(tmp_path, "0.0.7")
    with Run(tmp_path, "abc") as run:
        assert run.begin() == set()
        run.append("u1", rows(5))
        assert run.finish()["level"].tolist() == [5, 5, 5]
    assert f"asbc 0.0.7 has done a part of this run (this is {__version__}); it is set aside as abc.replaced-1" in (
        caplog.text
    )
    assert read_rows(tmp_path / "abc.replaced-1" / "parts" / "u1.parquet")["level"].tolist() == [1, 1, 1]
    assert read_status(tmp_path / "abc")["version"] == __version__


def test_versions_are_mixed_if_that_is_asked_for(tmp_path, caplog):
    begun_by(tmp_path, "0.0.7")
    with Run(tmp_path, "abc", mix_versions=True) as run:
        assert run.begin() == {"u1"}
        run.append("u2", rows(2))
        assert len(run.finish()) == 6
    assert f"asbc 0.0.7 has done a part of this run (this is {__version__}); it goes on" in caplog.text
    assert read_status(tmp_path / "abc")["versions"] == ["0.0.7", __version__]


def test_what_killed_writers_left_is_swept(tmp_path):
    with Run(tmp_path, "abc") as run:
        run.begin()
        run.append("u1", rows(1))
        run.finish()
    parts = tmp_path / "abc" / "parts"
    parts.mkdir()
    left = [tmp_path / "abc" / f".status.json.{'0' * 32}", parts / f".u2.parquet.{'f' * 32}", parts / "u1.parquet"]
    for path in left:
        path.touch()
    (tmp_path / "abc" / ".mine").touch()
    with Run(tmp_path, "abc"):
        assert sorted(p.name for p in (tmp_path / "abc").iterdir()) == [
            ".mine",
            "config.yaml",
            "results.parquet",
            "status.json",
        ]
