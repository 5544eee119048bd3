"""The command asbc-build."""

import signal

import numpy as np
import pytest

from asbc.outofcore.command import main
from tests.outofcore.small import ARGUMENTS, Started, files_of
from tests.walks import fit_graph, walk


@pytest.mark.parametrize("rule", ["spectral", "perplexity", "self_tuning", "fixed", "0.8"])
def test_command_line(path, tmp_path, capsys, rule):
    folder = tmp_path / "g"
    more = ["--npz", str(tmp_path / "g.npz"), "--parquet", str(tmp_path / "g.parquet"), "--bandwidth", rule]
    assert main([str(path), str(folder), *ARGUMENTS[:-1], *more]) == 0
    output = capsys.readouterr().out
    assert "recall@12" in output and "700 x 10 float32" in output
    assert (tmp_path / "g.npz").stat().st_size and (tmp_path / "g.parquet").stat().st_size


@pytest.mark.parametrize("rule", ["spectral", "fixed"])
def test_the_fewest_neighbours_on_the_command_line(path, tmp_path, rule):
    arguments = ["--k", "8", "--search", "exact", "--quiet", "--bandwidth", rule]
    assert main([str(path), str(tmp_path / "g"), *arguments]) == 0


def test_command_line_errors(path, tmp_path, capsys):
    assert main([str(tmp_path / "none.npy"), str(tmp_path / "g")]) == 1
    assert "no such file" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", np.load(path))
    assert main([str(tmp_path / "x.npz"), str(tmp_path / "g")]) == 1
    assert "is an .npz archive; save the vectors with numpy.save" in capsys.readouterr().err
    assert main([str(path), str(tmp_path / "h"), "--bandwidth", "wide"]) == 1
    assert "--bandwidth must be 'density', 'dimension_matching', 'fixed', " in capsys.readouterr().err
    assert main([str(path), str(tmp_path / "h"), "--ef-search", "9"]) == 1
    assert "search='auto' has no option 'ef_search'" in capsys.readouterr().err


def test_ctrl_c_says_how_to_resume(path, tmp_path, reference):
    stopped = Started(path, tmp_path / "g", *ARGUMENTS, hold="assign/000002.npz").wait_until_held()
    stopped.send_signal(signal.SIGINT)
    assert stopped.wait() == 130 and "the same command resumes the build" in stopped.read()[1]
    assert main([str(path), str(tmp_path / "g"), *ARGUMENTS]) == 0
    assert files_of(tmp_path / "g") == reference


def test_a_build_runs_through_few_modules(path, tmp_path):
    assert main([str(path), str(tmp_path / "warm"), "--quiet"]) == 0
    found = walk(lambda: main([str(path), str(tmp_path / "g")]))
    assert len(set(found) - set(fit_graph())) <= 8, sorted(found)
