"""Commands in processes of their own, forked from a process that has imported what they need.

A start then costs what the command does, and not the seconds that imports take. The process to fork from starts when it
is first needed, imports what is asked for and not there yet, and ends with the tests. For those who want to see how it
is without the rest, there is another one that imports nothing beyond the core. If one of them fails, the error shows
what it printed.
"""

import atexit
import functools
import gc
import importlib.util
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection, wait
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}  # as it is before any test changes it
ORDER = "print({'x', 'y', 'z'}, {'a', 'b', 'c'})"  # shows what a process's hash seed does to sets
# What a process finds imported: the core; what experiments and reports need; what images need too.
CORE = ("asbc.commands", "asbc.builder", "asbc.outofcore.command")
RUNS = (*CORE, "asbc.runs.command", "asbc.report.command", "asbc.report.exhibit", "tests.outofcore.small")
TORCH = (*RUNS, "asbc.embeddings.command", "asbc.embeddings.embedder", "asbc.train.command", "tests.embeddings.small")


class Forked:
    """A process, as ``subprocess.Popen`` would start it.

    Parameters
    ----------
    target : str or path
        What it runs: "module", whose ``main`` is called with `words` as the command line; "module:function", which is
        called with `words` as its arguments; or the path of a script.
    words : list
        See `target`.
    cwd : path
        The folder that it works in.
    env : dict, optional
        Its environment. What modules read as they are imported, they have read before.
    preload : sequence of str
        Modules that it is to find imported; if they have a function `warm_up`, it has been called. There may be more.
    alone : bool
        Whether there may be no more than that.
    """

    def __init__(self, target, words, *, cwd=ROOT, env=None, preload=RUNS, alone=False):
        self._server = _server(tuple(preload) if alone else None)
        self._output = Path(tempfile.mkdtemp(prefix="forked-"))
        atexit.register(shutil.rmtree, self._output, ignore_errors=True)
        for name in ("1", "2"):
            (self._output / name).touch()
        env = ENVIRONMENT if env is None else env
        self.pid, self._number = self._server.start(
            list(preload), str(target), list(words), os.fspath(cwd), dict(env), str(self._output)
        )

    @property
    def returncode(self):
        """The exit code, negative where a signal ended it; None as long as it runs."""
        return self._server.exit_code(self._number, seconds=0)

    def poll(self):
        return self.returncode

    def read(self):
        """All that it has printed so far: its output, and its errors."""
        return tuple((self._output / name).read_text() for name in ("1", "2"))

    def wait(self):
        """The exit code, once it has ended."""
        return self._server.exit_code(self._number, seconds=None)

    def communicate(self):
        self.wait()
        return self.read()

    def send_signal(self, number):
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self):
        """kill -9."""
        self.send_signal(signal.SIGKILL)


def run(target, words, **options):
    """Start a process, wait for it, and give its exit code, output and errors, as ``subprocess.run`` does."""
    process = Forked(target, words, **options)
    output, errors = process.communicate()
    return subprocess.CompletedProcess([target, *words], process.returncode, output, errors)


# ------------------------------------------------------------------------------------- the process that is forked


class _Server:
    """This end of the connection to a process that forks others."""

    def __init__(self):
        self._connection, there = multiprocessing.Pipe()
        self._started = 0  # processes so far, which are known by their place in that row
        self._codes = {}
        handle, self._errors = tempfile.mkstemp(prefix="fork-server-")
        command = [sys.executable, "-m", "tests.forked", str(there.fileno())]
        # One thread, since those of torch do not survive a fork.
        env = {**ENVIRONMENT, "PYTHONHASHSEED": _another_hash_seed(), "OMP_NUM_THREADS": "1"}
        with there:
            self._process = subprocess.Popen(command, cwd=ROOT, env=env, pass_fds=[there.fileno()], stderr=handle)
        atexit.register(self._end)

    def start(self, *request):
        """The new process's id, and its number here."""
        self._started += 1
        try:
            self._connection.send((self._started, request))
        except OSError:
            self._give_up()
        while True:
            kind, pid = self._receive()
            if kind == "started":
                return pid, self._started

    def exit_code(self, number, seconds):
        """Of the process with that number; None if it still runs after so many seconds. None waits for ever."""
        while number not in self._codes and self._connection.poll(seconds):
            self._receive()
        return self._codes.get(number)

    def _receive(self):
        try:
            kind, *told = self._connection.recv()
        except (EOFError, OSError):
            self._give_up()
        if kind == "ended":
            number, code = told
            self._codes[number] = code
        return kind, told[0]

    def _give_up(self):
        code, printed = self._process.wait(), Path(self._errors).read_text()
        raise RuntimeError(f"the process that forks others ended with {code}:\n{printed}")

    def _end(self):
        self._connection.close()
        self._process.wait()
        os.unlink(self._errors)


@functools.lru_cache
def _server(alone_with):
    """The process to fork from: one for each list of modules that must not have company, and one for all others."""
    return _Server()


def _another_hash_seed():
    """One that gives sets of strings another order than they have in this process, so that tests see both."""
    ours = f"{ {'x', 'y', 'z'} } { {'a', 'b', 'c'} }\n"
    for seed in map(str, range(100)):
        env = {**ENVIRONMENT, "PYTHONHASHSEED": seed}
        if subprocess.run([sys.executable, "-S", "-c", ORDER], env=env, capture_output=True, text=True).stdout != ours:
            return seed
    raise AssertionError("all hash seeds give one order")


def _serve(connection):
    """Fork a child for each request and tell when it ends; in the child, what was requested, None at the end."""
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    _listen(wake)
    alive, imported = {}, set()
    while True:
        ready = wait([connection, awake])
        if awake in ready:
            os.read(awake, 1000)
            for pid, number in list(alive.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    del alive[pid]
                    connection.send(("ended", number, os.waitstatus_to_exitcode(status)))
        if connection in ready:
            try:
                number, (modules, *request) = connection.recv()
            except EOFError:
                for pid in alive:
                    os.kill(pid, signal.SIGKILL)
                return None
            if not imported.issuperset(modules):
                _import(name for name in modules if name not in imported)
                imported.update(modules)
                _listen(wake)  # what was imported and warmed up may have set signals as it likes
                os.write(wake, b"?")  # a child may have ended meanwhile
            child = os.fork()
            if not child:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a shell's foreground
                for descriptor in (connection.fileno(), awake, wake):
                    os.close(descriptor)
                return request
            os.setpgid(child, child)  # a group of its own, as a shell gives it: who ends a group does not end the tests
            alive[child] = number
            connection.send(("started", child))


def _listen(wake):
    """Have the end of a child written to a pipe, so that it can be waited for beside requests."""
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; without them this ends too


def _import(names):
    """Import modules, and call those functions `warm_up` that they have.

    On one thread: others would not live on in what is forked.
    """
    gc.disable()
    for name in names:
        module = importlib.import_module(name)
        if hasattr(module, "warm_up"):
            import numba

            numba.set_num_threads(1)
            module.warm_up()
            numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    gc.collect()
    gc.freeze()  # what is there now stays: otherwise each child would look through it, and copy it as it does
    gc.enable()


def _work(target, words, cwd, env, output):
    for number in (1, 2):
        os.dup2(os.open(os.path.join(output, str(number)), os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    if "torch" in sys.modules and "OMP_NUM_THREADS" in env:  # which it has read before
        sys.modules["torch"].set_num_threads(int(env["OMP_NUM_THREADS"]))
    module, _, function = target.partition(":")
    if function:
        getattr(importlib.import_module(module), function)(*words)
        return
    sys.argv = [target, *words]
    sys.modules["__main__"].__spec__ = None if target.endswith(".py") else importlib.util.find_spec(module)
    if target.endswith(".py"):
        sys.path.insert(0, os.path.dirname(target))
        runpy.run_path(target, run_name="__main__")
    else:
        sys.exit(importlib.import_module(module).main())


if __name__ == "__main__":
    os.fsync = lambda descriptor: None  # as in tests/conftest.py
    # A child goes on from here, so that it ends as any program does.
    _request = _serve(Connection(int(sys.argv[1])))
    if _request is not None:
        _work(*_request)
