"""Commands in processes of their own, forked from one that has imported what they need.

A start then costs what it does and not the seconds that imports take.
"""

import importlib
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

PROCESSES = multiprocessing.get_context("forkserver")


class Forked:
    """A command of asbc, as ``subprocess.Popen`` would start it.

    Parameters
    ----------
    module : str
        Its ``main`` is called, with `words` as the command line.
    preload : list of str
        Modules that the process is to find imported, if no other command was started before.
    """

    def __init__(self, module, words, *, cwd, env, preload):
        PROCESSES.set_forkserver_preload(preload)
        self._output = Path(tempfile.mkdtemp(prefix="forked-"))
        self._process = PROCESSES.Process(
            target=_run, args=(module, list(words), str(cwd), dict(env), str(self._output))
        )
        self._process.start()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def read(self):
        """All that it has printed so far: its output, and its errors."""
        return tuple(path.read_text() if path.exists() else "" for path in (self._output / "1", self._output / "2"))

    def wait(self):
        """The exit code, once it has ended."""
        self._process.join()
        return self._process.exitcode

    def communicate(self):
        self.wait()
        return self.read()

    def send_signal(self, number):
        os.kill(self._process.pid, number)


def _run(module, words, cwd, env, output):
    for number in (1, 2):
        os.dup2(os.open(os.path.join(output, str(number)), os.O_WRONLY | os.O_CREAT), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = [module, *words]
    if "torch" in sys.modules and "OMP_NUM_THREADS" in env:  # which it has read before
        sys.modules["torch"].set_num_threads(int(env["OMP_NUM_THREADS"]))
    importlib.import_module(module).main()
