"""Files that know when they are damaged."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from asbc.runs.sealed import (
    ResultsError,
    read_note,
    read_rows,
    read_text,
    read_unit,
    write_note,
    write_rows,
    write_text,
)

ROWS = [dict(method="knn", value=0.5 + t / 8, scored=b"\x01", note=None) for t in range(8)]


def test_a_sealed_table_is_a_parquet_file_for_everybody(tmp_path):
    path = tmp_path / "rows.parquet"
    write_rows(path, ROWS, unit="u1")
    unit, frame = read_unit(path)
    assert unit == "u1"
    pd.testing.assert_frame_equal(frame, pd.DataFrame(ROWS))
    pd.testing.assert_frame_equal(pd.read_parquet(path), frame)
    assert pq.ParquetFile(path, page_checksum_verification=True).read().num_rows == 8


def test_a_table_with_any_byte_changed_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    write_rows(path, ROWS)
    good, frame = path.read_bytes(), read_rows(path)
    unseen = 0
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        try:
            pd.testing.assert_frame_equal(read_rows(path), frame)
            unseen += 1  # in the mark that stands before the checksum
        except ResultsError as error:
            assert str(path) in str(error)
    assert unseen < 7


def test_tables_and_notes_without_a_checksum_are_read_as_they_are(tmp_path):
    table = pa.Table.from_pandas(pd.DataFrame(ROWS)).replace_schema_metadata({b"asbc_format": b"1"})
    pq.write_table(table, tmp_path / "old.parquet")
    assert read_rows(tmp_path / "old.parquet")["value"].tolist() == [row["value"] for row in ROWS]
    (tmp_path / "old.json").write_text(json.dumps({"format": 1, "state": "finished"}))
    assert read_note(tmp_path / "old.json") == {"format": 1, "state": "finished"}
    (tmp_path / "old.yaml").write_text("seed: 0\n")
    assert read_text(tmp_path / "old.yaml") == "seed: 0\n"


def test_notes_and_texts_come_back_or_are_refused(tmp_path):
    note = {"state": "finished", "seconds": 0.1, "deep": {"a": [1, None, "ü"]}}
    write_note(tmp_path / "note.json", note)
    assert read_note(tmp_path / "note.json") == note
    write_text(tmp_path / "text.yaml", "seed: 0\nname: ü\n")
    assert read_text(tmp_path / "text.yaml") == "seed: 0\nname: ü\n"
    for name, read in (("note.json", read_note), ("text.yaml", read_text)):
        path = tmp_path / name
        path.write_text(path.read_text().replace("0", "3", 1))
        with pytest.raises(ResultsError, match=rf"{name}: damaged, its checksum is another; move the run's folder"):
            read(path)
    for content in (b"{", b"\xff", b"[1]", b"[" * 100_000):
        (tmp_path / "odd.json").write_bytes(content)
        with pytest.raises(ResultsError, match=r"odd\.json: not "):
            read_note(tmp_path / "odd.json")


def test_values_of_several_kinds_in_one_column_are_refused_in_one_line(tmp_path):
    with pytest.raises(ResultsError, match=r"x.parquet: rows whose values are of several kinds in one column"):
        write_rows(tmp_path / "x.parquet", [{"value": 0.5}, {"value": "half"}])
    assert not list(tmp_path.iterdir())
