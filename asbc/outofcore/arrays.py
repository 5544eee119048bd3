"""Arrays and JSON objects on disk, each written whole, with a checksum by which damage is noticed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.checksums import SummedFile, json_crc32
from asbc.files import misnamed, whole_file

NOTE = ".crc32"  # ends the name of the file with a checksum beside a scratch array


class GraphFileError(ValueError):
    """A file that is damaged, or is not what it is said to be."""


def open_array(path: Path, dtype: Any = None, shape: tuple[int, ...] | None = None) -> NDArray:
    """An ``.npy`` file as a read-only memory map, after a check that it is whole and what is expected."""
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version not in reader:
                raise ValueError(f"version {version} of the format")
            found_shape, fortran, found_dtype = reader[version](file)
            start = file.tell()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file.") from None
    except OSError:
        raise
    except Exception as error:  # NumPy reads the header as Python code, which damaged can fail in many ways
        raise GraphFileError(misnamed(path) or f"{path}: not a readable .npy file ({error}).") from error
    if found_dtype.hasobject:
        raise GraphFileError(f"{path}: holds Python objects; plain numbers are wanted.")
    size = path.stat().st_size
    wanted = start + int(np.prod(found_shape, dtype=object)) * found_dtype.itemsize
    if size < wanted:
        raise GraphFileError(f"{path}: ends early, {size:,} bytes of {wanted:,}.")
    if size > wanted:
        raise GraphFileError(f"{path}: goes on after its end, {size:,} bytes where {wanted:,} are expected.")
    if dtype is not None and np.dtype(dtype) != found_dtype:
        raise GraphFileError(f"{path}: dtype {found_dtype}, where {np.dtype(dtype)} is expected.")
    if shape is not None and tuple(shape) != found_shape:
        raise GraphFileError(f"{path}: shape {found_shape}, where {tuple(shape)} is expected.")
    if 0 in found_shape:
        return np.empty(found_shape, found_dtype)
    # As a plain array: small slices of NumPy's memmap class are slow.
    mapped = np.memmap(path, found_dtype, "r", start, found_shape, "F" if fortran else "C")
    return mapped.view(np.ndarray)


def write_array(path: Path, array: NDArray, *, noted: bool = True) -> int:
    """Write one array as an ``.npy`` file; see :func:`write_joined`."""
    return write_joined(path, array.dtype, array.shape, [array], noted=noted)


def write_joined(path: Path, dtype, shape: tuple[int, ...], pieces: Iterable[NDArray], *, noted: bool = True) -> int:
    """Write one array from `pieces` that follow each other along the first axis; one of them is held at a time.

    Returns the file's checksum, which is also `noted` in a file beside it, unless the caller writes it down elsewhere.
    """
    rows = 0
    with whole_file(path) as opened:
        file = SummedFile(opened)
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            rows += len(piece)
            file.write(np.ascontiguousarray(piece, dtype).data)  # tofile's error would not say that the disk is full
        if rows != shape[0]:
            raise GraphFileError(f"{path}: {rows} rows came, where {shape[0]} are expected.")
        if noted:
            write_note(path, file.crc32)
    return file.crc32


def write_note(path: Path, crc32: int) -> None:
    """Write down the checksum of a file that is about to get its name."""
    with whole_file(path.with_name(path.name + NOTE)) as file:
        file.write(str(crc32).encode())


def read_notes(folder: Path) -> dict[Path, int]:
    """The files in `folder` and below whose checksums were written down beside them, with these."""
    notes = ((note.with_name(note.name.removesuffix(NOTE)), note) for note in sorted(folder.rglob(f"*{NOTE}")))
    texts = {path: note.read_bytes() for path, note in notes if path.is_file()}
    return {path: int(text) if text.isdigit() else -1 for path, text in texts.items()}


def write_part(path: Path, arrays: Mapping[str, NDArray]) -> None:
    """Write some arrays, by name, to one file; it carries checksums, so that damage is noticed."""
    with whole_file(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_part(path: Path, *names: str) -> list[NDArray]:
    """The arrays of those names in a file that :func:`write_part` has written."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [_read_member(archive, name) for name in names]
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive makes zipfile and NumPy raise almost anything
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, zipfile.BadZipFile):
            raise
        raise GraphFileError(f"{path}: damaged ({error}); remove it and start again, and it is made anew.") from error


def _read_member(archive: zipfile.ZipFile, name: str) -> NDArray:
    with archive.open(f"{name}.npy") as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # the checksum is compared only at the very end
            raise ValueError(f"{name} goes on after its end")
    return array


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object, with a checksum of it as ``check``."""
    written = json.loads(json.dumps(content))  # as it will be read: keys are strings then
    written.pop("check", None)
    with whole_file(path) as file:
        file.write((json.dumps({**written, "check": json_crc32(written)}, indent=2) + "\n").encode())


def read_json(path: Path, *, checked: bool = False) -> dict[str, Any]:
    """The JSON object in a file, or an error that names the file; its checksum is compared where it has one.

    With `checked` it must have one: the very word may be what is damaged.
    """
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise GraphFileError(f"{path}: damaged ({error}).") from error
    if not isinstance(content, dict):
        raise GraphFileError(f"{path}: damaged (a JSON object is expected).")
    said = content.pop("check", None)
    if (checked and said is None) or (said is not None and said != json_crc32(content)):
        raise GraphFileError(f"{path}: damaged (its checksum differs).")
    return content
