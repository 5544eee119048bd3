"""Sweeps that are killed, whose files decay, or whose disk is full: nothing is lost, doubled or changed in silence."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from asbc.runs.command import job_notes
from asbc.runs.results import ResultsError, Run, collect, read_status
from asbc.storage import write_json, write_table
from tests.commands import Process
from tests.faults.flips import flipped
from tests.faults.kills import killed_at, operations
from tests.faults.sweeps import sweep, write_words
from tests.runs.test_command import asbc
from tests.runs.test_run import bare

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return write_words(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def whole(words, tmp_path_factory):
    """The folder of that sweep, undisturbed."""
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        assert asbc(patch, *words, f"out={out}") == 0
    return out


def remains(out):
    """Temporary files of writers, and parts, which a finished run does not need."""
    return [
        path for path in (out / "runs").rglob("*") if path.name.startswith(".") and ".lock" not in path.name
    ] + list((out / "runs").glob("*/parts"))


def test_a_sweep_killed_at_any_file_operation_goes_on(words, whole, memory, monkeypatch, some, counted):
    done = operations(sweep, [words, str(memory / "alone")], memory / "alone")
    whole = bare(collect(whole))
    pd.testing.assert_frame_equal(bare(collect(memory / "alone")), whole)
    assert sum(step.startswith("os.rename") for step in done) == 2 * (
        2 + 6 + 2 + 2
    )  # settings and record, notes, parts, tables
    followed = Counter()
    for number in some(range(len(done)), 4):
        out = memory / "killed"
        assert killed_at(number, sweep, [words, str(out)], out)
        followed["resumed to the same rows"] += 1
        assert asbc(monkeypatch, *words, f"out={out}") == 0, done[number]
        pd.testing.assert_frame_equal(bare(collect(out)), whole)
        assert len(list(out.glob("runs/*/results.csv"))) == 2, done[number]
        assert not remains(out), done[number]
        assert {read_status(path)["state"] for path in out.glob("runs/*/")} == {"finished"}
        shutil.rmtree(out)
    counted("kill -9 at a file operation", "a sweep", followed)


def test_no_flipped_bit_of_a_run_goes_unseen(whole, tmp_path, campaign, counted):
    out = shutil.copytree(whole, tmp_path / "out")
    (folder,) = out.glob("sweeps/*/")
    finished, half = sorted(out.glob("runs/*/"))
    # The second run as it was before its parts were joined.
    table = collect(half)
    parts = {
        f"u{trial}": write_table(half / "parts" / f"u{trial}.parquet", rows) for trial, rows in table.groupby("trial")
    }
    (half / "results.parquet").unlink()
    write_json(half / "status.json", read_status(half) | {"state": "running", "parts": parts})

    readers = {
        "results.parquet": (finished / "results.parquet", lambda: collect(finished)),
        "a part": (half / "parts" / "u1.parquet", lambda: collect(half)),
        "status.json": (finished / "status.json", lambda: read_status(finished)),
        "job.json": (folder / "0" / "job.json", lambda: job_notes(folder)),
    }
    for name, (path, read) in readers.items():
        good, followed = read(), Counter()
        for bit in flipped(path, 100 if campaign else 40):
            try:
                found = read()
            except ResultsError as error:
                assert str(path) in str(error) and "\n" not in str(error).split("(")[0], error
                followed["named with the file"] += 1
                continue
            if name == "job.json" and found[0]["state"] == "failed":
                assert str(path) in found[0]["error"]
                followed["named with the file"] += 1
            else:
                assert same(found, good), f"bit {bit} of {path} goes unseen"
                followed["changed nothing that is read"] += 1
        counted("a bit flipped", f"a run: {name}", followed)


def same(found, good):
    """Equal, but for a checksum whose own name was hit."""
    if isinstance(good, pd.DataFrame):
        return good.equals(found)
    if isinstance(good, list):
        return all(map(same, found, good))
    return all(found.get(key, value) == value and key in found for key, value in good.items())


@pytest.mark.parametrize("size", [0, 7000])
@pytest.mark.usefixtures("whole")  # all that numba keeps on disk is there
def test_a_disk_that_is_full_is_told_in_one_line(size, words, tmp_path, monkeypatch, capsys):
    # At first not even Hydra can write, which starts the jobs; then it can, and the tables do not fit.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        assert asbc(monkeypatch, *words, f"out={tmp_path}") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    text = "".join(capsys.readouterr())
    assert "the disk is full, or a file size limit is reached (File too large); free some space and start again" in text
    assert "Traceback" not in text and ("2 of 2 failed" in text) == bool(size)


def test_a_folder_that_cannot_be_written_to_is_told_in_one_line(words, monkeypatch, capfd):
    if not Path("/sys/kernel").is_dir():
        pytest.skip("no folder that not even root can write to")
    assert asbc(monkeypatch, *words, "out=/sys/asbc") == 1
    text = "".join(capfd.readouterr())
    assert "/sys/asbc" in text and "the folder is not writable" in text and "Traceback" not in text


def test_a_second_sweep_waits_for_the_first_and_ends_well(words, whole, tmp_path):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    first = min(tmp_path.glob("runs/*/"))
    table = collect(tmp_path)
    with Run(first.parent, first.name, rerun=True) as run:  # stands for the first sweep, which is at work
        run.begin()
        other = Process("asbc.runs.command", [*words, f"out={tmp_path}"], env=os.environ)
        said = (
            f"in use by process {os.getpid()} on {os.uname().nodename}; wait for it, or stop it. Waiting for it to end"
        )
        while said not in "".join(other.read()):
            assert other.poll() is None, other.read()
            time.sleep(0.05)
        for trial, rows in table[table["run_id"] == first.name].groupby("trial"):
            run.append(f"u{trial}", rows.to_dict("records"))
        run.finish()
    assert other.wait() == 0, other.read()
    assert other.read()[0].count("skipped (") == 2
    pd.testing.assert_frame_equal(bare(collect(tmp_path)), bare(table))


def test_workers_of_a_killed_sweep_end(words, tmp_path, campaign):
    if not campaign:
        pytest.skip("a sweep on several cores takes long to start")
    many = [word.replace("trials=2", "trials=100000") for word in words]
    command = [sys.executable, "-m", "asbc.runs.command", *many, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    parent = subprocess.Popen([*command, f"out={tmp_path}"], env={**os.environ, "PYTHONPATH": str(ROOT)})
    while len(list(tmp_path.glob("runs/*/parts"))) < 2:
        assert parent.poll() is None
        time.sleep(0.1)
    workers = [read_status(path)["process"] for path in tmp_path.glob("runs/*/")]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.1)
    assert not any(worker == parent.pid for worker in workers)
