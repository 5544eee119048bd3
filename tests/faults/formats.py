"""One small file of every format, how it is read, and the outcome of a flipped bit."""

import hashlib
import json
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from tests.faults.flips import flipped

rng = np.random.default_rng(0)
X = rng.normal(size=(12, 4)).astype(np.float32)
Y = np.arange(12) % 3

NAMED = "were refused, the file named"
SAME = "changed nothing that is read"
OTHER = "gave other vectors, and with them another fingerprint: the format has no checksum"


def table():
    import pandas as pd

    return pd.DataFrame({**{f"f{i}": X[:, i] for i in range(4)}, "label": [f"class {y}" for y in Y]})


def write_npz(folder):
    np.savez_compressed(folder / "x.npz", vectors=X, labels=Y)
    return folder / "x.npz"


def write_npy(folder):
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def write_csv(folder):
    table().to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def write_parquet(folder):
    table().to_parquet(folder / "x.parquet")
    return folder / "x.parquet"


def write_h5ad(folder):
    import anndata
    import pandas as pd

    people = pd.DataFrame({"label": pd.Categorical([f"class {y}" for y in Y])}, index=[f"c{i}" for i in range(12)])
    anndata.AnnData(X, people, obsm={"X_pca": X[:, :2]}).write_h5ad(folder / "x.h5ad")
    return folder / "x.h5ad"


def write_edges(folder):
    import asbc
    from asbc import export

    graph = asbc.GraphBuilder("uniform", k_cand=8).fit_transform(X)
    export.write_parquet(graph, folder / "edges.parquet")
    return folder / "edges.parquet"


def write_explored(folder):
    """The table next to a page of asbc-explore."""
    from asbc.storage import write_table

    write_table(folder / "explore.parquet", table())
    return folder / "explore.parquet"


def train(folder):
    """The folder of an encoder that asbc-pretrain has trained."""
    from asbc.train.run import pretrain
    from tests.train.small import config

    return pretrain(config(folder, "encoder.epochs=1", "encoder.method.hidden=4", "encoder.method.out=4"))


def write_checkpoint(folder):
    return next(train(folder).glob("*.ckpt"))


def write_args(folder):
    return train(folder) / "args.json"


def write_safetensors(folder):
    from safetensors.torch import save_file

    from asbc.embeddings.encoders import resnet

    save_file(resnet("resnet10", 2, 2).state_dict(), folder / "x.safetensors")
    return folder / "x.safetensors"


def read_vectors(path):
    from asbc.embeddings import files

    vectors, labels = files.read_vectors(path)
    return [vectors, labels]


def read_pages(path):
    """A Parquet file of ours, by a reader that compares the checksums of its pages."""
    import pyarrow.parquet as pq

    try:
        found = pq.read_table(path, page_checksum_verification=True)
    except Exception as error:
        raise ValueError(f"{path}: {str(error).partition(chr(10))[0]}") from error
    return [np.array(found[name].to_pylist()) for name in found.column_names]


def read_encoder(path):
    path = next(path.parent.glob("*.ckpt"), path)
    from PIL import Image

    from asbc.embeddings import read_checkpoint

    encoder = read_checkpoint(path, padding=2)
    view = encoder.transform(Image.fromarray(np.arange(3072).astype(np.uint8).reshape(32, 32, 3)))
    return [*(value.numpy() for value in encoder.model.state_dict().values()), view.numpy(), encoder.architecture]


# By name: how it is written, how it is read, and whether it has checksums.
FORMATS = {
    "vectors, .npz": (write_npz, read_vectors, True),
    "a graph's edges, Parquet": (write_edges, read_pages, True),
    "the table of asbc-explore": (write_explored, read_pages, True),
    "a trained encoder, .ckpt": (write_checkpoint, read_encoder, True),
    "a trained encoder, args.json": (write_args, read_encoder, True),
    "vectors, .npy": (write_npy, read_vectors, False),
    "vectors, .csv": (write_csv, read_vectors, False),
    "vectors, .parquet": (write_parquet, read_vectors, False),
    "vectors, .h5ad": (write_h5ad, read_vectors, False),
    "weights, .safetensors": (write_safetensors, read_encoder, False),
}


def digest(found):
    total = hashlib.sha256()
    for part in found:
        array = np.asarray(part)
        total.update(f"{array.dtype.kind}{array.shape}".encode() + (repr(array.tolist()).encode()))
    return total.hexdigest()


def flip_all(name, folder, times, log):
    """Flip `times` bits of a file of that format, one after the other, and write the count of each outcome to `log`."""
    write, read, checked = FORMATS[name]
    warnings.simplefilter("ignore")
    path = write(Path(folder))
    good, seen, wrong = digest(read(path)), Counter(), []
    # HDF5 leaves most of a small file unused, and zero.
    for bit in flipped(path, times, zeros=path.suffix != ".h5ad"):
        followed, complaint = outcome(read, path, good)
        seen[followed] += 1
        if complaint or (followed == OTHER and checked):
            wrong.append(f"bit {bit}: {complaint or 'another content, and nobody says so'}")
    Path(log).write_text(json.dumps([seen, wrong]))


def outcome(read, path, good):
    """What follows when a damaged file is read, and what is wrong with that, if anything."""
    try:
        found = digest(read(path))
    except (ValueError, TypeError, FileNotFoundError) as error:
        named = path.name in str(error) or str(path.parent) in str(error)
        return NAMED, None if named and "\n" not in str(error) else f"the file is not named in one line: {error}"
    except BaseException as error:
        return "failed", f"{type(error).__name__}: {error}"
    return SAME if found == good else OTHER, None
