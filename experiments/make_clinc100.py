"""Make the bundled sample of `embedding=clinc100` from an .npz file of sentence embeddings.

    python experiments/make_clinc100.py clinc100_minilm.npz

The file has `embeddings` (n, 384), `labels` (n,) and `label_names`: 100 intents of CLINC150 with 30 sentences each,
encoded by a MiniLM sentence encoder. The vectors are kept as float16, which changes no distance between unit vectors
by more than the last line printed says.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from asbc import normalize
from asbc.storage import atomic_file

TARGET = Path(__file__).parents[1] / "asbc" / "data" / "clinc100.npz"


def main(source: str) -> None:
    with np.load(source, allow_pickle=False) as archive:
        vectors, labels, names = (archive[key] for key in ("embeddings", "labels", "label_names"))
    counts = np.bincount(labels)
    if vectors.shape != (3000, 384) or len(counts) != 100 or not (counts == 30).all() or len(names) != 100:
        sys.exit(
            f"{source}: 3000 x 384 vectors in 100 classes of 30 are wanted, got {vectors.shape}, {len(counts)} classes"
        )
    small = vectors.astype(np.float16)
    with atomic_file(TARGET) as file:
        np.savez_compressed(file, embeddings=small, labels=labels.astype(np.uint8), label_names=names.astype(str))
    exact, rounded = normalize(vectors.astype(np.float64)), normalize(small.astype(np.float64))
    change = np.abs(np.linalg.norm(exact[:-1] - exact[1:], axis=1) - np.linalg.norm(rounded[:-1] - rounded[1:], axis=1))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes; distances change by at most {change.max():.1e}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
