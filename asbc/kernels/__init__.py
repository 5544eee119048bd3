"""Compiled inner loops: arrays in, arrays out."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path


def _drop_stale_cache(folder: Path) -> None:
    """Delete compiled code that was cached before any source file here changed.

    Numba looks only at the file a function stands in, but kernels inline each other across files: after an edit or
    a `git pull` it would go on running the old code of a function called from an unchanged file.
    """
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        digest.update(source.read_bytes())
    stamp = folder / "__pycache__" / "kernels.sha256"
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return
    with suppress(OSError):  # an installation that cannot be written to was not edited either
        stamp.parent.mkdir(exist_ok=True)
        for cached in [*stamp.parent.glob("*.nbi"), *stamp.parent.glob("*.nbc")]:
            cached.unlink(missing_ok=True)
        stamp.write_text(digest.hexdigest())


_drop_stale_cache(Path(__file__).parent)
