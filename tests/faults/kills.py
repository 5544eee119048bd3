"""Kill a process at a chosen file operation.

`operations` runs a function in a new process and lists its file operations in order. `killed_at` runs it again and
kills it just before one of them; of a write, half the bytes are written first.
"""

import builtins
import io
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.commands import Process

# Audit events of file operations, and the position of the path in their arguments.
_AUDITED = {"os.rename": 1, "os.remove": 0, "os.mkdir": 0, "os.rmdir": 0, "os.truncate": 0, "os.link": 1}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def operations(target, arguments, folder):
    """Return what ``target(*arguments)`` does to files in `folder`: such as ``["os.mkdir g", "open g/plan.json"]``.

    Parameters
    ----------
    target : function
        Of a module that can be imported. It may end with ``sys.exit(0)``.
    folder : path
        Only what happens in it counts.
    """
    done, code, output = _run(target, arguments, folder, None)
    assert code == 0, output
    return done


def killed_at(number, target, arguments, folder):
    """Kill ``target(*arguments)`` at operation `number`, from 0; return False if it ended before."""
    _, code, output = _run(target, arguments, folder, number)
    assert code in (0, -signal.SIGKILL), output
    return code != 0


def in_a_child(function, *arguments):
    """Return exit code and output of ``function(*arguments)`` in a new process."""
    process = Process(f"{function.__module__}:{function.__name__}", arguments)
    output = "".join(process.communicate())
    return process.returncode, output


def _run(target, arguments, folder, stop):
    with tempfile.TemporaryDirectory(prefix="killed-") as notes:
        log = os.path.join(notes, "operations")
        code, output = in_a_child(watch, target, arguments, os.path.realpath(folder), stop, log)
        return Path(log).read_text().splitlines(), code, output


def watch(target, arguments, folder, stop, log):
    """Call ``target(*arguments)``, log its file operations in `folder`, and kill the process at operation `stop`."""
    _Watch(folder, stop, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)).begin()
    target(*arguments)


class _Watch:
    """Count the operations on files in a folder, and kill the process at operation `stop`."""

    def __init__(self, folder, stop, log):
        self.folder, self.stop, self.log = folder, stop, log
        self.count = 0

    def begin(self):
        sys.addaudithook(self.audit)
        self.open = io.open
        io.open = builtins.open = self.opened
        for name in ("fsync", "posix_fallocate"):
            if hasattr(os, name):
                setattr(os, name, self.announced(name, getattr(os, name)))

    def audit(self, event, arguments):
        if event == "open":
            path, _, flags = arguments
            if (flags or 0) & _WRITING and self.inside(path):
                self.note("open", path)
        elif event in _AUDITED:
            path = arguments[_AUDITED[event]]
            # shutil.rmtree passes a folder descriptor and a bare name.
            if isinstance(path, int) or self.inside(path) or (event != "os.rename" and arguments[-1] not in (-1, None)):
                self.note(event, path)

    def opened(self, file, mode="r", *rest, **more):
        found = self.open(file, mode, *rest, **more)
        writing = set(mode) & set("wax+") and self.inside(file)
        return _Torn(found, file, self) if writing else found

    def announced(self, name, function):
        def announce(*arguments):
            self.note(name, "")
            return function(*arguments)

        return announce

    def inside(self, path):
        if isinstance(path, int) or path is None:
            return False
        return os.path.abspath(os.fsdecode(path)).startswith(self.folder)

    def note(self, what, path, last_words=None):
        place = path if isinstance(path, int) else os.path.relpath(os.fsdecode(path), self.folder) if path else ""
        os.write(self.log, f"{what} {place}\n".encode())
        if self.count == self.stop:
            if last_words is not None:
                last_words()
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


class _Torn:
    """A file whose writes are counted; half of the last one is written before the process is killed."""

    def __init__(self, file, path, watch):
        self._file, self._path, self._watch = file, path, watch

    def write(self, content):
        def half():
            whole = content if isinstance(content, str) else memoryview(content).cast("B")
            self._file.write(whole[: len(whole) // 2])
            self._file.flush()

        self._watch.note("write", self._path, half)
        return self._file.write(content)

    def truncate(self, *size):
        self._watch.note("truncate", self._path)
        return self._file.truncate(*size)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __iter__(self):
        return iter(self._file)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        return self._file.__exit__(*error)
