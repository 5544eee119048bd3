import errno
import os

import numpy as np
import pandas as pd
import pytest

from asbc.storage import (
    DamagedFileError,
    LockedError,
    atomic_file,
    atomic_path,
    check_file,
    explain_write_error,
    file_checksum,
    file_inside,
    folder_lock,
    open_array,
    read_json,
    read_table,
    remove_temporary_files,
    write_array_blocks,
    write_atomic,
    write_json,
    write_table,
)


def flips(data, every):
    """Copies of some bytes with one bit changed."""
    for at in range(0, len(data), every):
        yield data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def test_a_file_appears_only_when_complete(tmp_path):
    path = tmp_path / "folder" / "file"
    with pytest.raises(RuntimeError, match="stop"), atomic_file(path) as file:
        file.write(b"half")
        raise RuntimeError("stop")
    assert not path.exists() and not list(path.parent.iterdir())
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, "old")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as file:
        file.write(b"new")
        1 / 0  # noqa: B018
    assert path.read_text() == "old"


def test_files_are_synced_before_they_are_renamed(tmp_path, monkeypatch):
    calls = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append("fsync"), sync(file)))
    monkeypatch.setattr(os, "replace", lambda *names: (calls.append("replace"), replace(*names)))
    write_atomic(tmp_path / "file", b"content")
    assert calls == ["fsync", "replace"]


def test_temporary_files_are_removed_and_others_stay(tmp_path):
    for name in (".lock", "file", ".gitignore", ".file.0123"):
        (tmp_path / name).touch()
    leftover = tmp_path / f".file.{'0123456789abcdef' * 2}"
    leftover.touch()
    remove_temporary_files(tmp_path, older_than=3600)
    assert leftover.exists()
    remove_temporary_files(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".file.0123", ".gitignore", ".lock", "file"]


@pytest.mark.parametrize("number, words", [(errno.ENOSPC, "full"), (errno.EACCES, "not writable"), (errno.EIO, None)])
def test_write_errors_say_what_to_do(number, words):
    message = explain_write_error(OSError(number, "reason"))
    assert message is None if words is None else words in message


def test_checksums(tmp_path):
    path = tmp_path / "file"
    checksum = write_atomic(path, b"123456789")
    assert checksum == file_checksum(path) == 0xCBF43926  # the check value of CRC-32
    check_file(path, checksum)
    path.write_bytes(b"123456780")
    with pytest.raises(DamagedFileError, match="checksum differs"):
        check_file(path, checksum)


@pytest.mark.parametrize("name", ["../secret", "nodes/../../secret", "/etc/passwd", "link/secret", "C:/secret", "a\\b"])
def test_names_must_stay_inside_the_folder(tmp_path, name):
    folder = tmp_path / "graph"
    folder.mkdir()
    (tmp_path / "secret").touch()
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(DamagedFileError, match="outside the folder"):
        file_inside(folder, name)
    assert file_inside(folder, "nodes/sigma.npy") == folder / "nodes" / "sigma.npy"


def test_a_pipe_is_refused_and_does_not_block(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes on this system")
    os.mkfifo(tmp_path / "pipe")
    for read in (file_checksum, read_json, read_table, open_array):
        with pytest.raises(DamagedFileError, match="not a regular file"):
            read(tmp_path / "pipe")


def test_json_round_trip_and_every_flip_is_noticed(tmp_path):
    path = tmp_path / "note.json"
    write_json(path, {"b": [1, 2.5], "a": {"x": None}})
    assert read_json(path) == {"b": [1, 2.5], "a": {"x": None}}
    for damaged in flips(path.read_bytes(), 1):
        path.write_bytes(damaged)
        try:  # a flip in the white space between values changes nothing
            assert read_json(path) == {"b": [1, 2.5], "a": {"x": None}}
        except DamagedFileError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"a": 1}', "[" * 100_000, "\xff"])
def test_json_that_was_not_written_here_is_refused(tmp_path, text):
    path = tmp_path / "note.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DamagedFileError, match="damaged"):
        read_json(path)


def test_tables_round_trip_and_every_flip_is_noticed(tmp_path):
    path = tmp_path / "rows.parquet"
    frame = pd.DataFrame({"method": ["knn", "nnk"], "value": [0.5, 0.75], "trial": [0, 1]})
    checksum = write_table(path, frame)
    pd.testing.assert_frame_equal(read_table(path, checksum), frame)
    for damaged in flips(path.read_bytes(), 7):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=r"rows\.parquet"):
            read_table(path, checksum)


def test_arrays_round_trip(tmp_path):
    path = tmp_path / "array.npy"
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    checksum = write_array_blocks(path, np.float32, (4, 3), iter([array[:1], array[1:]]))
    assert checksum == file_checksum(path)
    np.testing.assert_array_equal(open_array(path, np.float32, (4, 3)), array)
    np.testing.assert_array_equal(np.load(path), array)
    with pytest.raises(DamagedFileError, match="dtype float32, expected int64"):
        open_array(path, np.int64)
    with pytest.raises(DamagedFileError, match=r"shape \(4, 3\), expected \(3, 4\)"):
        open_array(path, shape=(3, 4))
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(DamagedFileError, match="or an incomplete one"):
        open_array(path)
    path.write_bytes(content + b"1")
    with pytest.raises(DamagedFileError, match=r"array\.npy: has 177 bytes, expected 176"):
        open_array(path)
    write_array_blocks(path, np.int16, (0, 3), iter([]))
    assert open_array(path, np.int16, (0, 3)).size == 0
    with pytest.raises(ValueError, match="got 1 rows, expected 2"):
        write_array_blocks(path, np.float32, (2, 3), iter([array[:1]]))


def test_arrays_of_objects_and_misnamed_files_are_refused(tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.array([{}], dtype=object))
    with pytest.raises(DamagedFileError, match="Python objects"):
        open_array(path)
    path.write_text("1,2\n")
    with pytest.raises(DamagedFileError, match="not a readable \\.npy file"):
        open_array(path)


def test_a_lock_keeps_others_out_and_names_the_owner(tmp_path):
    owner = f"run: in use by process {os.getpid()} on"
    with folder_lock(tmp_path / "run"), pytest.raises(LockedError, match=owner), folder_lock(tmp_path / "run"):
        pass
    with folder_lock(tmp_path / "run"):
        pass
