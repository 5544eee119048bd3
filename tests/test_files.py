"""Files are there whole or not at all."""

import pytest

from asbc.files import whole_file, whole_path, write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_under_its_name_once_it_is_complete(tmp_path):
    with whole_path(tmp_path / "deep" / "x.txt") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "deep" / "x.txt").exists()
        assert temporary.parent == tmp_path / "deep" and temporary.name.startswith(".x.txt.")
    assert names(tmp_path / "deep") == ["x.txt"] and (tmp_path / "deep" / "x.txt").read_text() == "new"


def test_a_failed_writer_leaves_what_was_there(tmp_path):
    (tmp_path / "x.txt").write_text("old")
    with pytest.raises(RuntimeError), whole_path(tmp_path / "x.txt") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert names(tmp_path) == ["x.txt"] and (tmp_path / "x.txt").read_text() == "old"


def test_a_writer_that_wrote_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), whole_path(tmp_path / "x.txt"):
        pass
    assert names(tmp_path) == []


def test_an_open_file_replaces_the_old_one_when_it_is_closed(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"old")
    with whole_file(tmp_path / "x.bin") as file:
        file.write(b"new")
        file.flush()
        assert (tmp_path / "x.bin").read_bytes() == b"old"
    assert names(tmp_path) == ["x.bin"] and (tmp_path / "x.bin").read_bytes() == b"new"
    with pytest.raises(KeyboardInterrupt), whole_file(tmp_path / "x.bin") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert names(tmp_path) == ["x.bin"] and (tmp_path / "x.bin").read_bytes() == b"new"


def test_two_writers_of_one_name_do_not_meet(tmp_path):
    with whole_path(tmp_path / "x.txt") as first, whole_path(tmp_path / "x.txt") as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert names(tmp_path) == ["x.txt"] and (tmp_path / "x.txt").read_text() == "first"


def test_a_function_may_do_the_writing(tmp_path):
    write_whole(tmp_path / "x.txt", lambda path: path.write_text("new"))
    assert names(tmp_path) == ["x.txt"] and (tmp_path / "x.txt").read_text() == "new"
