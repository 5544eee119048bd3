"""Make a large set of embeddings: a mixture of curved low-dimensional pieces, on the unit sphere.

    python experiments/make_mixture.py mixture.npy --n 1000000 --d 384

Every row is drawn from (seed, its group of 4,096 rows), so a longer file begins with the rows of a shorter one.
Memory does not grow with n. The piece that a row belongs to is written beside it, as a label.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

GROUP = 4096  # rows that are drawn together, from a seed of their own
WAVES = 24  # curved features per piece


def make_pieces(d: int, n_pieces: int, seed: int, spacing: float = 1.0) -> list[tuple[np.ndarray, ...]]:
    """Frequencies, phases, amplitudes and centre of each piece; its dimension is the number of frequency columns."""
    rng = np.random.default_rng([seed, 0])
    pieces = []
    for _ in range(n_pieces):
        dimension = int(rng.integers(2, 13))
        frequencies = rng.normal(size=(WAVES, dimension)) * 1.2
        phases = rng.uniform(0, 2 * np.pi, WAVES)
        amplitudes = rng.normal(size=(WAVES, d)) / np.sqrt(WAVES * d)
        pieces.append((frequencies, phases, amplitudes, spacing * rng.normal(size=d) / np.sqrt(d)))
    return pieces


def make_group(pieces, d: int, group: int, seed: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``GROUP * group`` and on: (GROUP, d) float32 of unit length, and their pieces (GROUP,)."""
    rng = np.random.default_rng([seed, 1, group])
    labels = rng.integers(0, len(pieces), GROUP)
    rows = rng.normal(size=(GROUP, d)) * (noise / np.sqrt(d))
    positions = rng.uniform(-1, 1, size=(GROUP, 12))
    for piece in np.unique(labels):
        members = labels == piece
        frequencies, phases, amplitudes, center = pieces[piece]
        waves = np.sin(positions[members, : frequencies.shape[1]] @ frequencies.T + phases)
        rows[members] += waves @ amplitudes + center
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), labels.astype(np.int32)


def make_mixture(
    n: int, d: int = 384, *, n_pieces: int = 200, noise: float = 0.02, seed: int = 0, spacing: float = 1.0
):
    """All rows at once: (n, d) float32 and labels (n,), for sizes that fit in memory.

    `spacing` is how far the centres of pieces lie apart; the pieces themselves have a radius of about 0.7.
    """
    pieces = make_pieces(d, n_pieces, seed, spacing)
    groups = [make_group(pieces, d, group, seed, noise) for group in range(-(-n // GROUP))]
    return np.concatenate([g[0] for g in groups])[:n], np.concatenate([g[1] for g in groups])[:n]


def write_mixture(
    path: Path,
    n: int,
    d: int = 384,
    *,
    n_pieces: int = 200,
    noise: float = 0.02,
    seed: int = 0,
    dtype: str = "float32",
) -> None:
    """The same rows to ``path`` (.npy) and labels to ``<name>_labels.npy``, a group at a time."""
    pieces = make_pieces(d, n_pieces, seed)
    labels_path = path.with_name(path.stem + "_labels.npy")
    temporary = path.with_name(path.name + ".part")
    labels = np.empty(n, np.int32)
    with open(temporary, "wb") as file:
        header = {"descr": np.dtype(dtype).newbyteorder("<").str, "fortran_order": False, "shape": (n, d)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, GROUP):
            rows, own = make_group(pieces, d, start // GROUP, seed, noise)
            stop = min(start + GROUP, n)
            file.write(rows[: stop - start].astype(dtype).tobytes())
            labels[start:stop] = own[: stop - start]
    np.save(labels_path, labels)
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--n", type=int, default=1_000_000, help="rows (default: %(default)s)")
    parser.add_argument("--d", type=int, default=384, help="columns (default: %(default)s)")
    parser.add_argument("--pieces", type=int, default=200, help="curved pieces (default: %(default)s)")
    parser.add_argument("--noise", type=float, default=0.02, help="length of the noise vector (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32")
    args = parser.parse_args()
    settings = {"n_pieces": args.pieces, "noise": args.noise, "seed": args.seed, "dtype": args.dtype}
    write_mixture(args.path, args.n, args.d, **settings)
    print(f"{args.path}: {args.n:,} x {args.d} {args.dtype}")


if __name__ == "__main__":
    main()
