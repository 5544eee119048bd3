"""A bit that flips in any file that is read: an error that names the file, or nothing that matters."""

import json

import pytest

from tests.faults.formats import FORMATS, flip_all
from tests.faults.kills import in_a_child

QUICK = ("vectors, .npz", "a graph's edges, Parquet", "vectors, .npy", "vectors, .parquet")


@pytest.mark.parametrize("name", FORMATS)
def test_flips(name, tmp_path, campaign, counted):
    if campaign:  # in another process, since libraries may crash on what they do not expect
        code, output = in_a_child(flip_all, name, tmp_path, 60, tmp_path / "log")
        assert code == 0, output
    elif name in QUICK:
        flip_all(name, tmp_path, 8, tmp_path / "log")
    else:
        pytest.skip("all formats: make faults")
    seen, wrong = json.loads((tmp_path / "log").read_text())
    assert not wrong, "\n".join(wrong)
    counted("a bit flipped", name, seen)
