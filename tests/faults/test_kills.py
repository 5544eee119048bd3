"""The killer itself: it sees every operation, and kills where it says."""

import os
from pathlib import Path

from tests.faults.flips import bits, flipped
from tests.faults.kills import killed_at, operations


def writes(folder):
    """A folder, a file in two writes, its name, and a file that goes."""
    folder = Path(folder)
    (folder / "inner").mkdir()
    with open(folder / "inner" / ".new", "wb") as file:
        file.write(b"12345678")
        file.write(b"abcdefgh")
        file.flush()  # otherwise a kill at the next line would leave nothing
        os.fsync(file.fileno())
    os.replace(folder / "inner" / ".new", folder / "inner" / "file")
    Path(folder, "old").unlink()
    Path(folder.parent, "elsewhere").touch()  # does not count


def test_every_operation_is_seen_and_can_be_the_last(tmp_path):
    def fresh(name):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").touch()
        return tmp_path / name

    done = operations(writes, [fresh("whole")], tmp_path / "whole")
    assert done == [
        "os.mkdir inner",
        "open inner/.new",
        "write inner/.new",
        "write inner/.new",
        "fsync ",
        "os.rename inner/file",
        "os.remove old",
    ]
    left = []
    for number in range(len(done)):
        folder = fresh(str(number))
        assert killed_at(number, writes, [folder], folder)
        left.append({str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()})
    assert left[0] == left[1] == {"old": b""}
    assert left[2] == {"old": b"", "inner/.new": b"1234"}
    assert left[3] == {"old": b"", "inner/.new": b"12345678abcd"}
    assert left[4] == left[5] == {"old": b"", "inner/.new": b"12345678abcdefgh"}
    assert left[6] == {"old": b"", "inner/file": b"12345678abcdefgh"}
    assert not killed_at(len(done), writes, [fresh("last")], tmp_path / "last")


def test_a_flip_changes_one_bit_and_is_undone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(5))
    seen = [(bit, path.read_bytes()) for bit in flipped(path, 7)]
    assert [bit for bit, _ in seen] == bits(path, 7) and len(set(bits(path, 7))) == 7
    assert all(int.from_bytes(content, "little") == 1 << bit for bit, content in seen)
    assert path.read_bytes() == bytes(5)
    assert len(bits(path, 100)) == 40
