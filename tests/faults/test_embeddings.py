"""Embeddings that are killed, and entries of the store that are damaged."""

import shutil
from collections import Counter

import pytest

from asbc.embeddings.store import read_entry
from tests.faults.flips import flipped
from tests.faults.kills import killed_at, operations

pytest.importorskip("lightning")


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def entry(tmp_path_factory):
    from tests.faults.embeds import run

    return run(tmp_path_factory.mktemp("cache"))


def test_killed_at_every_file_operation(entry, memory, some, counted):
    from tests.faults.embeds import run

    done = operations(run, [memory / "whole"], memory / "whole")
    numbers = some(range(len(done)), 6)
    for number in numbers:
        cache = memory / str(number)
        killed_at(number, run, [cache], cache)
        folder = run(cache)
        assert contents(folder) == contents(entry), f"killed at {done[number]}"
        lock = f".{folder.name}.lock"
        assert {path.name for path in folder.parent.iterdir()} <= {folder.name, lock, f"{lock}.owner"}
        shutil.rmtree(cache)
    counted("kill -9 at a file operation", "an embedding", {"resumed to the same bytes": len(numbers)})


def test_flips_in_an_entry(entry, tmp_path, counted, campaign):
    folder = shutil.copytree(entry, tmp_path / "entry")
    pristine, seen = read_entry(folder), Counter()
    for file in sorted(folder.iterdir()):
        for bit in flipped(file, 40 if campaign else 8):
            try:
                found = read_entry(folder)
            except ValueError as error:
                assert file.name in str(error) or str(folder) in str(error)
                seen["were refused, the entry named"] += 1
                continue
            same = (found.vectors == pristine.vectors).all() and (found.labels == pristine.labels).all()
            names = [(one.name, one.encoder, one.fingerprint) for one in (found, pristine)]
            assert same and names[0] == names[1], f"bit {bit} of {file.name} changes what is read, and nobody says so"
            seen["changed nothing that is read"] += 1
    counted("a bit flipped", "an entry of the embedding store", seen)
