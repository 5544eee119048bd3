"""Settings as they were written: the fast way of reading them is the careful one's."""

import datetime

import pytest
from omegaconf import OmegaConf

from asbc.runs.sealed import ResultsError, write_text
from asbc.runs.settings import FILE, read_settings, settings_text

ODD = {
    "numbers": [0, -1, 10**20, 0.0, -0.5, 1e-05, 1e20, 1e300, 5e-324, float("inf"), float("-inf")],
    "words": ["1", "1e5", "1.5", "yes", "No", "null", "~", "", " ", "0x1f", "0o7", "1_000", "12:30:45", "2020-01-01"],
    "more": ["2020-01-01 10:00:00", "a: b", "#", "- x", "é ε 中", "line\nline", "tab\t", "'", '"', "%", "&a", "|"],
    "none": None,
    "flags": [True, False],
    "nested": {"a": {"b": {"c": []}}, "d": {}, "2020-01-01": 1, "on": 2, "1": 3},
    "k_cand": 30,
}


def written(folder, text, sealed=True):
    if sealed:
        write_text(folder / FILE, text)
    else:
        (folder / FILE).write_text(text)
    return folder


def test_settings_come_back_as_they_were(tmp_path):
    text = OmegaConf.to_yaml(OmegaConf.create(ODD))
    folder = written(tmp_path, text)
    assert read_settings(folder) == OmegaConf.to_container(OmegaConf.create(text)) == ODD
    assert [type(v) for v in read_settings(folder)["words"]] == [str] * len(ODD["words"])
    assert settings_text(folder) == text


@pytest.mark.parametrize("value", [1e5, "1e5", "2020-01-01", "12:30", 1.5e-7])
def test_sealed_or_not_is_one(tmp_path, value):
    text = OmegaConf.to_yaml(OmegaConf.create({"k_cand": 30, "value": value}))
    for sealed in (True, False):
        found = read_settings(written(tmp_path, text, sealed))["value"]
        assert found == value and type(found) is type(value)
        assert not isinstance(found, datetime.date)


def test_interpolations_are_left_as_they_are(tmp_path):
    folder = written(tmp_path, "k_cand: 30\nneighbors:\n  k: ${k_cand}\n")
    assert read_settings(folder)["neighbors"] == {"k": "${k_cand}"}


def test_what_cannot_be_read_names_the_file(tmp_path):
    with pytest.raises(ResultsError, match=r"config\.yaml: not readable"):
        read_settings(written(tmp_path, "a: [1,"))
    with pytest.raises(ResultsError, match=r"config\.yaml: not readable"):
        read_settings(written(tmp_path, "a: 1\na: 2\n", sealed=False))


def test_no_file_no_settings(tmp_path):
    assert read_settings(tmp_path) == {}
    assert settings_text(tmp_path) == ""
