import multiprocessing
import os
import subprocess
import sys
import threading

import numba
import pytest

from asbc.kernels import ahead
from asbc.kernels.ahead import LATER, Helper

FIRST, SECOND = LATER
WAITS = "import time; time.sleep(600)"


def returns(work, *arguments, seconds=30.0):
    """Whether a call comes back; on a thread, so that the test ends if it does not."""
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


@pytest.fixture
def started():
    helpers = []

    def start(code, longest=600.0):
        helpers.append(Helper([sys.executable, "-c", code], list(LATER), longest))
        return helpers[-1]

    yield start
    for helper in helpers:
        helper.stop()
        assert helper.process.returncode is not None  # it has ended, and left no zombie


def test_each_kernel_is_waited_for_until_it_is_named(started):
    helper = started(f"print('{FIRST}', flush=True); {WAITS}")
    assert returns(helper.wait_for, FIRST)
    assert returns(helper.wait_for, "a kernel that it does not see to")
    assert not returns(helper.wait_for, SECOND, seconds=0.5)
    helper.stop()
    assert returns(helper.wait_for, SECOND)


def test_nobody_waits_for_a_process_that_failed(started):
    helper = started("raise SystemExit(1)")
    assert returns(helper.wait_for, SECOND)


def test_nobody_waits_for_long_if_it_hangs(started):
    helper = started(WAITS, longest=0.2)
    assert returns(helper.wait_for, FIRST)
    assert returns(helper.wait_for, SECOND)
    assert helper.process.poll() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_neither_waits_nor_ends_it(started):
    helper = started(WAITS)
    child = os.fork()
    if not child:
        try:
            helper.wait_for(SECOND)
            helper.stop()
        finally:
            os._exit(0)
    assert returns(os.waitpid, child, 0)
    assert helper.process.poll() is None


def test_it_starts_once_and_only_where_it_can_help(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(ahead, "Helper", lambda command, names: commands.append(command))
    monkeypatch.setattr(ahead, "_helper", None)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)

    def starts(folder=tmp_path):
        commands.clear()
        monkeypatch.setattr(ahead, "_tried", False)
        ahead.start(folder)
        ahead.start(folder)
        return len(commands)

    assert starts() == 1
    assert starts(None) == 0  # compiled code is not kept where the other process would leave it
    for target, name, value in (
        (numba.config, "NUMBA_NUM_THREADS", 1),
        (multiprocessing.current_process(), "name", "LokyProcess-1"),
        (sys, "frozen", True),
        (sys, "executable", "/opt/blender/blender"),
        (sys, "executable", None),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(target, name, value, raising=False)
            assert starts() == 0, name
    for name in LATER:
        (tmp_path / f"module.{name}-1.nbi").touch()
    assert starts() == 0  # nothing is missing


def test_no_more_processes_is_no_error(tmp_path, monkeypatch):
    def refuse(*_):
        raise BlockingIOError

    monkeypatch.setattr(ahead, "Helper", refuse)
    monkeypatch.setattr(ahead, "_tried", False)
    monkeypatch.setattr(ahead, "_worth_it", lambda _: True)
    ahead.start(tmp_path)


def test_what_it_compiles_is_what_a_graph_needs():
    code = """if True:
        import numba, numpy as np, asbc
        from asbc.kernels import ahead, criterion, nnk, spectrum
        ahead.compile_all()
        kernels = criterion.next_grid_point, nnk._rows_exactly, spectrum.effective_ranks
        before = [kernel.signatures for kernel in kernels]
        asbc.GraphBuilder(k_cand=10).fit(np.random.default_rng(0).normal(size=(50, 3)))
        assert [kernel.signatures for kernel in kernels] == before, before
        assert {kernel.__name__ for kernel in (criterion._search, nnk._rows_exactly)} == set(ahead.LATER)
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == list(LATER)


def test_the_first_compiled_function_starts_it_and_the_end_of_the_program_ends_it(tmp_path):
    code = """if True:
        import numba, numpy as np
        numba.config.NUMBA_NUM_THREADS = 2
        from asbc.kernels import ahead
        from asbc.kernels.components import piece_names
        assert ahead._helper is None
        piece_names(np.arange(3))
        print(ahead._helper.process.pid)
    """
    cold = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=cold)
    assert run.returncode == 0 and not run.stderr, run.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(run.stdout), 0)
