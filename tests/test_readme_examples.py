"""What the README shows works as it stands, and its Python and its command make the same graph."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import asbc
from asbc.outofcore.command import main

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCK = r"```(?:sh|bash)\n(.*?)```"
SHELL = [line for block in re.findall(BLOCK, TEXT, re.S) for line in block.splitlines() if line]


def build_command():
    (line,) = [line for line in SHELL if line.startswith("asbc-build ")]
    return shlex.split(line, comments=True)[1:]


def test_python_and_command_make_the_same_graph(tmp_path, monkeypatch, clouds):
    monkeypatch.chdir(tmp_path)
    # Vectors of different lengths, so that the metric matters.
    lengths = np.random.default_rng(0).uniform(0.2, 5.0, (len(clouds[0]), 1))
    np.save("embeddings.npy", (clouds[0] * lengths).astype(np.float32))
    np.save("labels.npy", clouds[1])
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.S):
        exec(block, names)
    assert main([*build_command(), "--quiet"]) == 0
    ours, theirs = names["A"], asbc.load_graph("graph")
    assert ours.nnz > 0 and ours.shape == theirs.shape
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    assert ours.data.tobytes() == np.ascontiguousarray(theirs.data).tobytes()
    np.testing.assert_array_equal(names["sigma"], asbc.load_nodes("graph")["sigma"])
    # The test would notice the other metric.
    euclidean = names["builder"].set_params(metric="euclidean").fit_transform(names["X"])
    assert (euclidean != ours).nnz > 0


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES)
def test_brackets_are_quoted_for_every_shell(page):
    """zsh reads a bare [ ] as a pattern and refuses the command; typed into it, a # begins no comment."""
    text = (ROOT / page).read_text()
    blocks = "\n".join(re.findall(BLOCK, text, re.S)).splitlines()
    inline = [code for code in re.findall(r"`([^`\n]+)`", text) if re.match(r"(?:asbc|python|pip)[ -]", code)]
    for line in blocks + inline:
        bare = re.sub(r"'[^']*'|\"[^\"]*\"|#.*", "", line)
        assert "[" not in bare, line
        assert page != "README.md" or "#" not in re.sub(r"'[^']*'|\"[^\"]*\"", "", line), line


def test_commands_name_settings_that_there_are():
    from hydra import compose, initialize_config_dir

    from asbc.configs import conf_dir

    checked = 0
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        for line in SHELL:
            words = shlex.split(line, comments=True)
            if words[0] != "asbc":
                continue
            given = [word for word in words[1:] if word not in ("-m",) and not word.startswith("hydra/launcher=")]
            # One value of each list that a sweep or several experiments stand for; a list in brackets is one value.
            single = [word if "[" in word else word.split(",")[0] for word in given]
            compose("config", overrides=single)
            checked += 1
    assert checked >= 2
