"""Small vectors, and what the tests of builds share: a build, its files, how it is stopped."""

import json
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import asbc
from asbc.bandwidth import ConstantNeighborhoodWarning, KnownBandwidth
from asbc.outofcore import driver as driver_module
from asbc.outofcore.command import main
from asbc.outofcore.driver import build_graph
from tests.commands import Process

N = 700
ARGUMENTS = ["--k", "12", "--block", "100", "--n-lists", "6", "--n-probe", "2", "--quiet"]
STAGES = ["assign", "neighbors", "rows", "transpose", "graph"]


def files_of(folder):
    """All arrays of a finished build, byte for byte, and the manifest."""
    found = {str(f.relative_to(folder)): f.read_bytes() for f in Path(folder).rglob("*.npy")}
    return found | {"manifest.json": Path(folder, "manifest.json").read_bytes()}


def without_block(files):
    """The same without the size of a block, and without the manifest's own checksum, which counts it too."""
    manifest = json.loads(files["manifest.json"])
    del manifest["block"], manifest["crc32"]
    return {**files, "manifest.json": manifest}


def build(path, folder, builder=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantNeighborhoodWarning)
        builder = asbc.GraphBuilder(k_cand=12) if builder is None else builder
        return build_graph(path, folder, builder, **{"search": "exact", "block": 150, **options})


def assert_same_as_in_one_piece(X, folder, builder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantNeighborhoodWarning)
        builder.fit(X)
    graph = asbc.load_graph(folder)
    for name in ("indptr", "indices", "data"):
        assert (getattr(graph, name) == getattr(builder.graph_, name)).all(), name
    assert (asbc.load_rows(folder)[1] == builder.weights_).all()
    nodes = asbc.load_nodes(folder)
    if builder.bandwidth_ is None:
        assert nodes == {}
    else:
        assert (nodes.pop("dimension") == builder.dimension_).all()
        for name, values in nodes.items():
            np.testing.assert_array_equal(values, getattr(builder.bandwidth_, name), err_msg=name)


class HalfTheThird(asbc.Bandwidth):
    """A user's local rule."""

    local = True

    def choose(self, X, neighbors, dimension):
        return asbc.BandwidthChoice(np.maximum(neighbors.distances[:, 2] / 2, 1e-3))


class Dies(HalfTheThird):
    """The same, but it ends the first `times` processes that work with it, each in another block, and not `spared`.

    It writes a file to `folder` for each.
    """

    def __init__(self, folder, times, spared):
        self.folder = folder
        self.times = times
        self.spared = spared

    def choose(self, X, neighbors, dimension):
        death = Path(self.folder, f"{float(neighbors.distances.sum()):.9f}")
        deaths = len(list(Path(self.folder).iterdir()))
        if os.getpid() != self.spared and deaths < self.times and not death.exists():
            death.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().choose(X, neighbors, dimension)


class LargestScale(asbc.Bandwidth):
    """A user's rule that needs all nodes, with a parameter."""

    uses_dimension = False

    def __init__(self, factor=1.0):
        self.factor = factor

    def summarize(self, X, neighbors, dimension):
        return {"last": neighbors.distances[:, -1].copy()}

    def resolve(self, summary):
        return KnownBandwidth(self.factor * float(summary["last"].max()))


BUILDERS = {
    "nnk_sigma": {},
    "refined": {"bandwidth": asbc.SpectralBandwidth(gamma=0.8, n_grid=9, refine=True)},
    "perplexity": {"weights": "gaussian", "bandwidth": asbc.Perplexity()},
    "self_tuning": {"weights": "gaussian", "bandwidth": asbc.SelfTuning()},
    "self_tuning_nnk": {"bandwidth": asbc.SelfTuning()},
    "fixed": {"bandwidth": asbc.Fixed(0.7)},
    "mean_knn": {"bandwidth": asbc.Fixed("mean_knn")},
    "median_spectral": {"bandwidth": asbc.Fixed("median_spectral")},
    "log_log": {"weights": "gaussian", "bandwidth": asbc.LogLog()},
    "dimension_matching": {"weights": "gaussian", "bandwidth": asbc.DimensionMatching()},
    "max_min": {"weights": "gaussian", "bandwidth": asbc.DimensionMatching("max_min")},
    "density": {"weights": "gaussian", "bandwidth": asbc.DensityNormalized()},
    "density_of_spectral": {"bandwidth": asbc.DensityNormalized(asbc.SpectralBandwidth(), alpha=0.5)},
    "density_of_self_tuning": {"weights": "gaussian", "bandwidth": asbc.DensityNormalized(asbc.SelfTuning())},
    "own_local": {"bandwidth": HalfTheThird()},
    "own_global": {"weights": "gaussian", "bandwidth": LargestScale(factor=0.3), "sharpen": True},
    "uniform": {"weights": "uniform"},
    "sharpened": {"sharpen": True, "weights": "gaussian"},
    "max": {"symmetrize": "max"},
    "directed": {"symmetrize": None},
    "two_nn": {"dimension": "two_nn"},
    "two_nn_surveyed": {"dimension": "two_nn", "bandwidth": asbc.DimensionMatching()},
    "levina_bickel": {"dimension": "levina_bickel", "k_min": 0},
    "euclidean": {"metric": "euclidean"},
    "blend": {"weights": "blend"},
    "nnk_rule": {"weights": asbc.NNK(k_min=2), "bandwidth": "perplexity"},
    "seed": {"random_state": 7, "n_rep": 2},
}


class Started(Process):
    """``asbc-build`` in a process of its own, which waits for ever at `hold`, if that is given.

    Parameters
    ----------
    path, folder, arguments
        As on the command line.
    hold : str, optional
        The end of a file's name. The process stops just before that file, written in full, gets its name.
    largest_file : int, optional
        Bytes that no file may outgrow.
    """

    def __init__(self, path, folder, *arguments, hold=None, largest_file=None):
        self._held = Path(tempfile.mkdtemp(prefix="started-", dir=Path(folder).parent)) / "held"
        words = [str(path), str(folder), *arguments]
        super().__init__("tests.outofcore.small:command", [words, str(self._held), hold, largest_file])

    def wait_until_held(self):
        while not self._held.exists():
            assert self.poll() is None, self.read()
            time.sleep(0.002)
        return self


def command(words, held, hold, largest_file):
    """``asbc-build`` as it is started above."""
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    rename = os.replace

    def replace(source, target):
        if hold is not None and os.fspath(target).endswith(hold):
            Path(held).touch()
            while True:
                signal.pause()
        rename(source, target)

    os.replace = replace
    sys.exit(main(words))


def build_until(step, monkeypatch, path, folder, **options):
    """A build that is stopped where `step`, a method of the driver, would begin."""

    def stop(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(driver_module._Build, step, stop)
        build(path, folder, **options)
