"""How commands end: what a missing extra says, in one line and with no traceback; and what if nobody reads on.

Packages are hidden, not uninstalled.
"""

import io
import os
import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from asbc.commands import CLOSED_PIPE, build, read_env
from asbc.extras import MissingExtraError, needed
from asbc.outofcore.command import main as build_main
from asbc.runs import command
from tests.commands import run
from tests.hidden import ALL, EMBED, WANDB


def without(packages, code, *arguments, cwd):
    """Run some code in a Python that does not find some packages."""
    env = {**os.environ, "ASBC_CACHE": str(Path(cwd) / "cache")}
    words = [packages, code, list(map(str, arguments))]
    return run("tests.hidden:run_code", words, cwd=cwd, env=env)


NEEDS = {
    "run": 'asbc: this command needs hydra: pip install "asbc[experiments]"',
    "report": 'asbc-report: this command needs pandas: pip install "asbc[experiments]"',
    "explore": 'asbc-explore: this command needs pandas: pip install "asbc[explore]"',
    "embed": 'asbc-embed: this command needs hydra: pip install "asbc[embed]"',
    "upload": 'asbc-upload: this command needs wandb: pip install "asbc[wandb]"',
}


def test_commands_without_their_extra(tmp_path):
    code = f"""
import asbc.commands, sys
for name in {list(NEEDS)}:
    try:
        getattr(asbc.commands, name)()
    except SystemExit as stop:
        print(stop.code)
"""
    result = without(ALL, code, cwd=tmp_path)
    assert (result.stdout.splitlines(), result.stderr) == (list(NEEDS.values()), "")


def test_the_core_builds_graphs_with_no_extra_at_all(tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(60, 4)))
    code = "import asbc, numpy; asbc.GraphBuilder(k_cand=10).fit(numpy.load('vectors.npy')); "
    code += "from asbc.commands import build; build()"
    result = without(ALL, code, "vectors.npy", "graph", "--k-cand", 10, "--search", "exact", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "60 x 4" in result.stdout and (tmp_path / "graph" / "manifest.json").exists()


def hide(monkeypatch, package):
    """Let this process not find a package; modules that have imported it keep it."""
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(
    ("package", "words", "says"),
    [
        ("faiss", ["--search", "hnsw"], """search='hnsw' needs faiss: pip install "asbc[scale]\""""),
        (
            "pynndescent",
            ["--search", "nn_descent"],
            """search='nn_descent' needs pynndescent: pip install "asbc[scale]\"""",
        ),
        ("distributed", ["--engine", "dask"], """engine='dask' needs distributed: pip install "asbc[scale]\""""),
        ("pyarrow", ["--parquet", "edges.parquet"], '--parquet needs pyarrow: pip install "asbc[experiments]"'),
        ("fsspec", ["--metric", "cosine"], 'reading from a URL needs fsspec: pip install "asbc[scale]"'),
    ],
)
def test_options_of_a_build_without_their_extra(package, words, says, tmp_path, monkeypatch, capsys):
    hide(monkeypatch, package)
    monkeypatch.chdir(tmp_path)
    np.save("vectors.npy", np.random.default_rng(0).normal(size=(60, 4)))
    source = "memory://vectors.npy" if package == "fsspec" else "vectors.npy"
    assert build_main([source, "graph", "--k-cand", "10", *words, "--quiet"]) == 1
    assert capsys.readouterr().err == f"asbc-build: {says}\n"


@pytest.mark.parametrize(
    ("package", "function", "says"),
    [
        ("pandas", "asbc.runs.results:collect", 'reading results needs pandas: pip install "asbc[experiments]"'),
        ("networkx", "asbc.export:to_networkx", 'to_networkx needs networkx: pip install "asbc[peers]"'),
        ("torch", "asbc.export:to_pyg", 'to_pyg needs torch: pip install "asbc[embed,peers]"'),
        (
            "wandb_workspaces",
            "asbc.runs.wandb:dashboards",
            'the dashboard needs wandb_workspaces: pip install "asbc[wandb]"',
        ),
    ],
)
def test_functions_without_their_extra(package, function, says, monkeypatch):
    module, _, name = function.partition(":")
    call = getattr(import_module(module), name)
    hide(monkeypatch, package)
    with pytest.raises(MissingExtraError, match=re.escape(says)):
        call("x")


@pytest.mark.parametrize(("command", "prefix"), [("run", ""), ("embed", "asbc-embed: ")])
def test_images_without_torch(command, prefix, tmp_path):
    settings = ["embedding=mocov2", "embedding.source=checkpoint", "embedding.path=x.ckpt"]
    result = without(EMBED, f"from asbc.commands import {command} as start; start()", *settings, cwd=tmp_path)
    assert result.returncode == 1 and "Traceback" not in result.stderr + result.stdout
    told = [line for line in (result.stdout + result.stderr).splitlines() if "pip install" in line]
    assert told and all(re.search(r'embedding images needs \w+: pip install "asbc\[embed\]"$', line) for line in told)
    assert not prefix or told[-1].startswith(prefix)


def test_wandb_that_is_missing_does_not_stop_a_run(tmp_path):
    settings = ["logger=[csv,wandb]", "method=[knn]", "samples_per_class=[5]", "trials=1", "progress=false"]
    result = without(WANDB, "from asbc.commands import run; run()", *settings, cwd=tmp_path)
    assert result.returncode == 0 and "Traceback" not in result.stderr + result.stdout
    assert 'logger=wandb needs wandb: pip install "asbc[wandb]"' in result.stdout + result.stderr
    assert list(tmp_path.glob("outputs/runs/*/results.csv"))


def test_slurm_without_its_launcher(tmp_path):
    hidden = ["hydra_plugins.hydra_submitit_launcher", "submitit"]
    result = without(hidden, "from asbc.commands import run; run()", "-m", "hydra/launcher=slurm", cwd=tmp_path)
    says = 'asbc: hydra/launcher=slurm needs hydra-submitit-launcher: pip install "asbc[slurm]"\n'
    assert (result.returncode, result.stderr) == (1, says)


def test_slurm_where_there_is_no_cluster(monkeypatch):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["asbc", "-m", "hydra/launcher=slurm"])
    with pytest.raises(SystemExit, match="srun was not found"):
        command.main()


def start_unread(command, arguments, buffered):
    """Run a command whose output goes into a pipe that nobody reads. Without a buffer, printing itself fails."""
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, 1)
    sys.stdout = io.TextIOWrapper(open(1, "wb", -1 if buffered else 0), write_through=not buffered)  # noqa: SIM115
    sys.argv = [command, *arguments]
    getattr(import_module("asbc.commands"), command)()


BUILD = ["vectors.npy", "graph", "--k-cand", "10", "--search", "exact"]


@pytest.mark.parametrize(
    ("command", "arguments", "buffered", "code"),
    [
        ("build", BUILD, True, CLOSED_PIPE),
        ("build", BUILD, False, CLOSED_PIPE),
        ("build", ["--help"], True, CLOSED_PIPE),  # by the SystemExit of argparse
        ("build", ["nowhere.npy", "graph"], True, 1),  # what went wrong counts more
        ("run", ["--help"], False, CLOSED_PIPE),
    ],
)
def test_commands_end_quietly_where_nobody_reads_on(command, arguments, buffered, code, tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(60, 4)))
    result = run("tests.test_commands:start_unread", [command, arguments, buffered], cwd=tmp_path)
    assert result.returncode == code
    assert "Traceback" not in result.stderr and "Broken" not in result.stderr
    assert (tmp_path / "graph" / "manifest.json").exists() == (arguments == BUILD)


def test_a_pipe_that_is_not_the_output_breaks_loudly(monkeypatch):
    def lose_a_worker():
        raise BrokenPipeError("of a worker")

    monkeypatch.setattr(import_module("asbc.outofcore.command"), "main", lose_a_worker)
    with pytest.raises(BrokenPipeError, match="of a worker"):
        build()


def test_a_module_of_our_own_that_is_missing_is_no_extra():
    with pytest.raises(ModuleNotFoundError, match=r"asbc\.nowhere") as caught, needed("this", "all"):
        import asbc.nowhere  # noqa: F401
    assert not isinstance(caught.value, MissingExtraError)


def test_a_package_that_is_broken_keeps_its_own_error(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("raise ImportError('of its own')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match="of its own") as caught, needed("this", "all"):
        import broken_package  # noqa: F401
    assert not isinstance(caught.value, MissingExtraError)


def test_variables_of_a_file_are_set_unless_they_are_set_already(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("ASBC_CACHE", "WANDB_API_KEY", "WANDB_PROJECT", "ASBC_ODD"):
        monkeypatch.setenv(name, "")  # so that it is restored afterwards
        monkeypatch.delenv(name)
    lines = [
        "# comment", "", "ASBC_CACHE=/data/my cache # of the group", "export WANDB_API_KEY='secret # key'",
        'WANDB_PROJECT = "graphs"', "WANDB_MODE=online", "PATH=/nowhere", "ASBC_ODD",
    ]  # fmt: skip
    (tmp_path / ".env").write_text("\n".join(lines))
    before = os.environ["PATH"]
    read_env(tmp_path / ".env")
    names = ("ASBC_CACHE", "WANDB_API_KEY", "WANDB_PROJECT", "WANDB_MODE", "PATH", "ASBC_ODD")
    expected = ["/data/my cache", "secret # key", "graphs", "offline", before, None]
    assert [os.environ.get(name) for name in names] == expected
    shown = capsys.readouterr().err
    assert "ASBC_CACHE, WANDB_API_KEY, WANDB_PROJECT" in shown and "secret" not in shown
    read_env(tmp_path / "missing")


def test_a_command_reads_the_file_in_the_current_folder(tmp_path):
    (tmp_path / ".env").write_text(f"ASBC_CACHE={tmp_path / 'elsewhere'}\n")
    code = "import sys; sys.argv[1:] = ['--list']; from asbc.commands import embed; embed()"
    env = {name: value for name, value in os.environ.items() if name != "ASBC_CACHE"}
    done = run("tests.hidden:run_code", [(), code, []], cwd=tmp_path, env=env)
    assert str(tmp_path / "elsewhere") in done.stdout, done.stderr
