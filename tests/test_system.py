"""Other operating systems: what they lack is hidden, and the core and the commands still work."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]

# Hide what Windows does not have.
HIDE = """
import os, platform, select, subprocess, sys
import numba, numpy, scipy.sparse, sklearn  # built for this system, they may use what it has
for name in ("fcntl", "resource"):
    sys.modules[name] = None
for module, name in ((select, "poll"), (os, "uname"), (os, "posix_fallocate")):
    if hasattr(module, name):
        delattr(module, name)
sys.argv = ["asbc", *sys.argv[1:]]
"""


def run_hidden(code, *arguments, cwd):
    command = [sys.executable, "-c", HIDE + code, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=None)


@pytest.fixture
def vectors(tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(80, 4)))
    return tmp_path


def test_graphs_and_builds_work_without_unix_modules(vectors):
    code = """
import asbc, numpy as np
from asbc.commands import build
from asbc.outofcore.driver import peak_memory_bytes
assert peak_memory_bytes() is None
A = asbc.GraphBuilder(k_cand=10).fit_transform(np.load("vectors.npy"))
try:
    build()
except SystemExit as stop:
    assert not stop.code, stop.code
assert (asbc.load_graph("graph", verify=True) != A).nnz == 0
"""
    result = run_hidden(code, "vectors.npy", "graph", "--k-cand", 10, "--block", 30, cwd=vectors)
    assert result.returncode == 0, result.stderr
    assert "peak memory" not in result.stdout and "80 x 4" in result.stdout


@pytest.mark.parametrize("module", ["asbc.runs.command", "asbc.explore.command", "asbc.report.command"])
def test_commands_import_without_unix_modules(module, tmp_path):
    pytest.importorskip("hydra")
    result = run_hidden(f"import {module}", cwd=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="needs Linux's list of memory maps")
def test_scratch_is_not_mapped_when_it_is_removed(vectors):
    """Windows does not remove a file that is mapped."""
    code = """
import shutil
import asbc
remove = shutil.rmtree
def check(path, *rest, **options):
    assert "/scratch/" not in open("/proc/self/maps").read()
    remove(path, *rest, **options)
shutil.rmtree = check
asbc.build_graph("vectors.npy", "graph", asbc.GraphBuilder(k_cand=10, metric="cosine"), search="ivf", block=30)
"""
    result = run_hidden(code, cwd=vectors)
    assert result.returncode == 0, result.stderr
