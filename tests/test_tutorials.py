"""Every block of docs/tutorials is run as it stands, in an empty folder."""

import contextlib
import io
import os
import re
import shlex
import warnings

import pytest

from tests import commands

FOLDER = commands.ROOT / "docs" / "tutorials"
TUTORIALS = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")
NEEDS = {"clusters": ["graspologic_native", "umap", "bokeh"], "encoder": ["lightning"], "sweep": ["wandb"]}
SMALLER = {"n, d = 1_000_000, 96": "n, d = 3_000, 16"}
MODULES = {
    "asbc": "asbc.runs.command",
    "asbc-build": "asbc.outofcore.command",
    "asbc-embed": "asbc.embeddings.command",
    "asbc-explore": "asbc.explore.command",
    "asbc-report": "asbc.report.command",
    "asbc-upload": "asbc.runs.wandb",
}

pytestmark = pytest.mark.slow


def masked(line):
    """The line without its numbers and the spaces around them, which differ between versions of libraries."""
    return re.sub(r"\s*[\d.,]+%?\s*", "#", line.strip())


def run_line(line, folder):
    """Run a command and return what it prints."""
    name, *words = shlex.split(line)
    environment = {**os.environ, "ASBC_CACHE": str(folder / "cache"), "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    if name == "python":
        done = commands.run(folder / words[0], words[1:], cwd=folder, env=environment)
    else:
        start = commands.run if name in ("asbc-embed", "asbc-upload") else commands.call
        done = start(MODULES[name], words, cwd=folder, env=environment)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("tutorial", TUTORIALS)
def test_tutorials_run(tutorial, tmp_path, monkeypatch):
    for package in NEEDS.get(tutorial, []):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names, printed = {"__name__": "tutorial"}, ""
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```$", (FOLDER / f"{tutorial}.md").read_text(), re.M | re.S):
        named = re.match(r"# (\S+\.(?:py|yaml))\n", code)
        if named:
            path = tmp_path / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)
        elif language == "python":
            for full, small in SMALLER.items():
                code = code.replace(full, small)
            output = io.StringIO()
            with contextlib.redirect_stdout(output), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(code, f"{tutorial}.md", "exec"), names)
            printed = output.getvalue()
        elif language == "sh":
            printed = "".join(run_line(line, tmp_path) for line in code.strip().splitlines())
        elif language == "text":
            have = {masked(line) for line in printed.splitlines()}
            for line in code.splitlines():
                assert line == "..." or masked(line) in have, f"{line!r} was not printed, but:\n{printed}"


def test_the_list_of_tutorials_is_complete():
    listed = re.findall(r"\]\((\w+)\.md\)", (FOLDER / "index.md").read_text())
    assert sorted(listed) == TUTORIALS
