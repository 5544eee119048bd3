"""Run asbc's commands: in this process with `call`, or in a new one with `run` and `start`.

A new Python takes 2 seconds to import what `asbc-build` and `asbc` need, and 6 with torch. Use `call` unless the test
kills the command, sends it signals, or needs a fresh interpreter.
"""

import atexit
import contextlib
import importlib
import io
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]


class Process(subprocess.Popen):
    """A process whose output can be read while it runs.

    Parameters
    ----------
    target : str or path
        What it runs: "package.module", with `words` as its command line; the path of a script; or "module:function",
        which is called with `words` as its arguments (anything that can be pickled).
    words : sequence
        See `target`.
    cwd : path, default=ROOT
        Working folder.
    env : mapping, optional
        The whole environment; the default is this process's. The clone is always importable.
    """

    def __init__(self, target, words=(), *, cwd=ROOT, env=None):
        env = dict(os.environ if env is None else env)
        env["PYTHONPATH"] = os.pathsep.join([*filter(None, [env.get("PYTHONPATH")]), str(ROOT)])
        target = str(target)
        if ":" in target:
            self._call = tempfile.NamedTemporaryFile(suffix=".pickle")  # noqa: SIM115
            self._call.write(pickle.dumps(list(words)))
            self._call.flush()
            command = ["-m", "tests.commands", target, self._call.name]
        else:
            command = [*([] if target.endswith(".py") else ["-m"]), target, *map(str, words)]
        # Opened for appending, so that reading does not move the place where the process writes.
        self._output = [tempfile.TemporaryFile("ab+") for _ in range(2)]  # noqa: SIM115
        out, err = self._output
        options = {"cwd": cwd, "env": env, "stdout": out, "stderr": err, "start_new_session": True}
        if os.name == "posix":  # a shell starts background jobs, and so their children, with SIGINT ignored
            options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        super().__init__([sys.executable, *command], **options)
        atexit.register(self.kill)  # if the test fails before it waits

    def read(self):
        """Everything printed so far: (output, errors)."""
        return tuple(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in self._output)

    def communicate(self):
        self.wait()
        return self.read()

    def kill(self):
        """Kill the process with SIGKILL and wait for its end."""
        self.send_signal(signal.SIGKILL)
        self.wait()


def run(target, words=(), **options):
    """Run a process to its end, as ``subprocess.run`` does; the parameters are those of `Process`."""
    process = Process(target, words, **options)
    output, errors = process.communicate()
    return subprocess.CompletedProcess([target, *words], process.returncode, output, errors)


def call(target, words=(), *, cwd=ROOT, env=None):
    """Call ``module.main()`` in this process with `words` as its command line; returns what `run` would.

    Environment variables, working folder and log handlers are as before when it returns.
    """
    main = importlib.import_module(target).main
    output, errors, code = io.StringIO(), io.StringIO(), None
    handlers, before = logging.root.handlers[:], os.getcwd()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
        mock.patch.dict(os.environ, os.environ if env is None else env, clear=True),
        mock.patch.object(sys, "argv", [target, *map(str, words)]),
    ):
        os.chdir(cwd)
        try:
            code = main()
        except SystemExit as stop:
            code = stop.code
        finally:
            os.chdir(before)
            logging.root.handlers[:] = handlers
    if isinstance(code, str):
        errors.write(code + "\n")
        code = 1
    return subprocess.CompletedProcess([target, *words], code or 0, output.getvalue(), errors.getvalue())


if __name__ == "__main__":
    module, _, function = sys.argv[1].partition(":")
    getattr(importlib.import_module(module), function)(*pickle.loads(Path(sys.argv[2]).read_bytes()))
