import logging
import os
import shutil
import threading

import pandas as pd
import pytest
import yaml

from asbc.runs.results import (
    FORMAT,
    ResultsError,
    Run,
    collect,
    list_runs,
    open_run,
    read_rows,
    read_status,
    run_id,
)
from asbc.storage import write_json
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
            patch.setattr("asbc.runs.results.shutil.rmtree", die)
        run.finish()
    run._stack.close()
    assert len(collect(tmp_path)) == 6
    with Run(tmp_path, "abc") as again:
        assert again.finished == (moment == "before the parts go")
        if not again.finished:
            assert again.begin() == {"u1", "u2"}
            assert len(again.finish()) == 6
    assert len(collect(tmp_path)) == 6
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
    assert [p.name for p, _ in list_runs(tmp_path)] == ["abc"]


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
    assert f"in use by process {os.getpid()} on {os.uname().nodename}" in caplog.text and "Waiting" in caplog.text


def test_damaged_parts_are_named_and_computed_again(tmp_path, caplog):
    with Run(tmp_path, "abc") as run:
        run.begin()
        for unit in (1, 2, 3):
            run.append(f"u{unit}", rows(unit))
    parts = tmp_path / "abc" / "parts"
    (parts / "u1.parquet").write_bytes((parts / "u1.parquet").read_bytes()[:-20])
    with pytest.raises(ResultsError, match=r"u1.parquet: damaged .* rerun=true"):
        collect(tmp_path)
    (parts / "u2.parquet").unlink()
    shutil.copy(parts / "u3.parquet", parts / "u4.parquet")  # not in status.json: a kill came before it was recorded
    with Run(tmp_path, "abc") as run:
        assert run.begin() == {"u3"}
        assert "u1.parquet: damaged" in caplog.text and "u2.parquet" in caplog.text
        for unit in (1, 2):
            run.append(f"u{unit}", rows(unit))
        assert sorted(run.finish()["level"].unique()) == [1, 2, 3]


def test_other_formats_and_damaged_files_are_refused(tmp_path):
    with Run(tmp_path, "abc", {"seed": 0}) as run:
        run.begin()
        run.append("u1", rows(1))
        run.finish()
    for name, read in (("results.parquet", collect), ("status.json", read_status)):
        path = tmp_path / "abc" / name
        good = path.read_bytes()
        for bad in (good[:-5], good.replace(b"e", b"f"), b""):
            path.write_bytes(bad)
            with pytest.raises(ResultsError, match=rf"{name}: .*(damaged|not a readable).* rerun=true"):
                read(tmp_path / "abc")
        path.write_bytes(good)
    status = read_status(tmp_path / "abc")
    write_json(tmp_path / "abc" / "status.json", status | {"format": FORMAT + 1})
    with pytest.raises(ResultsError, match=f"format {FORMAT + 1}, this version reads format {FORMAT}"):
        collect(tmp_path)
    write_json(tmp_path / "abc" / "status.json", status | {"parts": 3})
    with pytest.raises(ResultsError, match="parts missing or of a wrong type"):
        collect(tmp_path)
    with pytest.raises(ResultsError, match="no such folder"):
        collect(tmp_path / "nowhere")


def test_part_names_stay_inside_the_folder(tmp_path):
    with Run(tmp_path, "abc") as run:
        run.begin()
        run.append("u1", rows(1))
    status = read_status(tmp_path / "abc")
    write_json(tmp_path / "abc" / "status.json", status | {"parts": {"../../secret": 1}})
    with pytest.raises(ResultsError, match="points outside the folder"):
        collect(tmp_path)


ODD = {
    "numbers": [0, -1, 10**20, 0.0, -0.5, 1e-05, 1e20, 1e300, 5e-324, float("inf"), float("-inf")],
    "words": ["1", "1e5", "1.5", "yes", "No", "null", "~", "", " ", "0x1f", "0o7", "1_000", "12:30:45", "2020-01-01"],
    "more": ["2020-01-01 10:00:00", "a: b", "#", "- x", "é ε 中", "line\nline", "tab\t", "'", '"', "%", "&a", "|"],
    "none": None,
    "flags": [True, False],
    "nested": {"a": {"b": {"c": []}}, "d": {}, "2020-01-01": 1, "on": 2, "1": 3, "${k_cand}": "${k_cand}"},
}


def test_settings_come_back_as_they_were(tmp_path):
    with Run(tmp_path, "abc", ODD) as run:
        run.begin()
        run.finish()
    found = open_run(run.path)
    assert found.settings == ODD and yaml.safe_load(found.text) == ODD
    assert yaml.safe_load((run.path / "config.yaml").read_text()) == {**ODD, "data": {}}
    (run.path / "config.yaml").write_text("a: [1,")  # nothing reads it
    assert open_run(run.path).settings == ODD


def test_values_of_several_types_in_one_column_are_refused_in_one_line(tmp_path):
    with pytest.raises(ResultsError, match=r"u.parquet: a column has values of several types"), Run(tmp_path, "a") as r:
        r.begin()
        r.append("u", [{"value": 0.5}, {"value": "half"}])


def test_tables_are_plain_parquet_files(tmp_path):
    with Run(tmp_path, "abc") as run:
        run.begin()
        run.append("u1", rows(1))
        frame = run.finish()
    pd.testing.assert_frame_equal(pd.read_parquet(run.path / "results.parquet"), frame)


def test_integers_stay_integers_and_packed_columns_come_on_request(tmp_path):
    for name, more in (("a", {"n_grid": 12, "flag": True}), ("b", {"gamma": 0.5}), ("c", {"gamma": 1})):
        with Run(tmp_path, name) as run:
            run.begin()
            run.append("u", [dict(value=0.5, scored=b"1", right=b"1", k=3, **more), dict(value=1.0, k=None)])
            run.finish()
    table = collect(tmp_path)
    assert {"scored", "right"}.isdisjoint(table) and {"scored", "right"} <= {*collect(tmp_path, per_node=True)}
    assert table["n_grid"].dropna().tolist() == [12] and isinstance(table["n_grid"].iloc[0], int | pd.Int64Dtype.type)
    assert str(table["k"].dtype) == "Int64" and str(table["flag"].dtype) == "boolean"
    assert str(table["gamma"].dtype) == "float64" and table["gamma"].dropna().tolist() == [0.5, 1.0]


def test_columns_of_different_runs_are_joined(tmp_path):
    for name, extra in (("a", {"gamma": 1.0}), ("b", {"k": 15, "note": None})):
        with Run(tmp_path, name) as run:
            run.begin()
            run.append("u", [dict(value=0.5, **extra)])
            run.finish()
    table = collect(tmp_path)
    assert set(table.columns) == {"value", "gamma", "k", "note"} and len(table) == 2


def test_copies_of_runs_are_counted_once(tmp_path, caplog):
    with Run(tmp_path, "abc") as run:
        run.begin()
        run.append("u1", rows(1))
        run.append("u2", rows(2))
        table = run.finish()
    (tmp_path / "backup").mkdir()
    for copy in ("aaa", "zzz", "backup/abc"):
        shutil.copytree(tmp_path / "abc", tmp_path / copy)
    pd.testing.assert_frame_equal(collect(tmp_path), table)
    assert [path.name for path, _ in list_runs(tmp_path)] == ["abc"]
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
    assert f"begun by asbc 0.0.7 (this is {__version__}); set aside as abc.replaced-1" in caplog.text
    assert read_rows(tmp_path / "abc.replaced-1" / "parts" / "u1.parquet")["level"].tolist() == [1, 1, 1]
    assert read_status(tmp_path / "abc")["version"] == __version__


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
