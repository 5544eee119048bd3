"""The cache of compiled kernels: what is wrong with it never reaches the user."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest

from asbc.kernels import compiled
from asbc.kernels.mst import shuffle

# Prints the result of a small kernel, and how many times it was loaded from the cache and compiled.
PROGRAM = """
import numpy as np
from asbc.kernels.mst import shuffle
order = np.empty(5, np.int64)
shuffle(1, 2, 3, order)
stats = shuffle.stats
print("".join(map(str, order)), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run(folder, program=PROGRAM, **environment):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)


def printed(result):
    assert result.returncode == 0 and result.stderr == "", result.stderr
    value, hits, misses = result.stdout.split()
    order = np.empty(5, np.int64)
    shuffle(1, 2, 3, order)
    assert value == "".join(map(str, order))
    return int(hits), int(misses)


def entries(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def test_a_second_process_loads_what_the_first_compiled_and_damaged_entries_are_compiled_again(tmp_path):
    assert printed(run(tmp_path)) == (0, 1)
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    assert printed(run(tmp_path)) == (1, 0)
    rng = np.random.default_rng(0)
    flips = [bytearray(whole) for _ in range(3)]
    for damaged in flips:
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
    for damaged in (b"", whole[: len(whole) // 2], whole + b"\0", *map(bytes, flips)):
        entry.write_bytes(damaged)
        assert printed(run(tmp_path)) == (0, 1)
        assert printed(run(tmp_path)) == (1, 0)  # replaced by a sound entry


def test_flips_anywhere_are_noticed(tmp_path):
    path = tmp_path / "folder" / "entry"
    compiled.write_entry(path, ("some", "content"))
    whole = path.read_bytes()
    assert compiled.read_entry(path) == ("some", "content")
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="is damaged"):
            compiled.read_entry(path)


@pytest.mark.parametrize("obstacle", ["a file", "read-only", "an entry is a folder"])
def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, obstacle):
    folder = tmp_path / "cache"
    if obstacle == "a file":
        folder.write_text("")
    elif obstacle == "read-only":
        folder.mkdir()
        folder.chmod(0o500)  # no obstacle for root, who can write anyway
    else:
        run(folder)
        (entry,) = entries(folder)
        entry.unlink()
        entry.mkdir()
    try:
        assert printed(run(folder)) == (0, 1)
    finally:
        if folder.is_dir():
            folder.chmod(0o700)


# Become another user, who may not be able to read this Python: what it needs is imported before.
AS_USER = """
import os, sys
import numba
import numpy as np
from asbc.kernels import compiled, mst
compiled.cache_folder()
numba.njit(lambda x: np.exp(-x).sum())(np.ones(2))
os.umask(0o022)
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to become other users")
def test_two_users_share_a_cache():
    """Each loads its own entries and those of the administrator. A read-only cache is read."""
    folder = Path(tempfile.mkdtemp(prefix="asbc-kernels-"))
    try:

        def as_user(user):
            environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
            command = [sys.executable, "-c", AS_USER + PROGRAM, str(user)]
            return printed(subprocess.run(command, capture_output=True, text=True, env=environment))

        folder.chmod(0o777)
        assert as_user(12_001) == (0, 1)
        assert as_user(12_001) == (1, 0)
        assert as_user(12_002) == (0, 1), "loaded the code of another user"
        (entry,) = entries(folder)
        os.chown(entry, 0, 0)  # as in the image of a container
        assert as_user(12_002) == (1, 0)
        folder.chmod(0o555)
        assert as_user(12_002) == (1, 0)
        entry.write_bytes(b"damaged")
        os.chown(entry.parent, 0, 0)
        assert as_user(12_002) == (0, 1), "cannot be replaced"
    finally:
        shutil.rmtree(folder)


def test_a_full_disk_is_no_error(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); import signal; "
    limit += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"  # writing beyond 100 bytes is then an OSError
    assert printed(run(tmp_path, limit + PROGRAM)) == (0, 1)
    assert entries(tmp_path) == []


def test_no_home_folder_is_no_error():
    nowhere = "import pathlib, sys\ndef home(): raise RuntimeError('no home')\npathlib.Path.home = home\n"
    environment = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "", "LOCALAPPDATA": ""}
    assert printed(run("", nowhere + PROGRAM, **environment)) == (0, 1)


@pytest.mark.parametrize("variable", [{"NUMBA_OPT": "0"}, {"NUMBA_BOUNDSCHECK": "1"}])
def test_settings_of_numba_have_entries_of_their_own(tmp_path, variable):
    printed(run(tmp_path))
    result = run(tmp_path, **variable)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert result.stdout.split()[1:] == ["0", "1"]


def test_a_disabled_compiler_is_one_clear_line():
    result = run("", "import asbc; asbc.search_neighbors([[0.0], [1.0]], 1)", NUMBA_DISABLE_JIT="1")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("ImportError: asbc needs compiled code, and NUMBA_DISABLE_JIT=1")


def test_the_folder_is_named_after_the_contents_of_all_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    sources = tmp_path / "kernels"
    sources.mkdir()
    monkeypatch.setattr(compiled, "__file__", str(sources / "compiled.py"))
    folders = []
    for content in ("a = 1\n", "a = 2\n", "a = 1\n"):
        (sources / "lanes.py").write_text(content)
        folders.append(compiled.cache_folder.__wrapped__())
    assert folders[0] == folders[2] != folders[1]
    assert folders[0].parent == tmp_path / "asbc" / "kernels"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_notice_is_printed_once_and_only_on_a_terminal(monkeypatch, capsys, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    compiled._print_notice.cache_clear()
    for _ in range(2):
        compiled._print_notice()
    assert capsys.readouterr().err == (compiled.MESSAGE if terminal else "")


def test_numba_still_has_what_the_cache_relies_on():
    """If this fails after an update of numba, adapt asbc/kernels/compiled.py and the bounds in pyproject.toml."""
    from numba.core.caching import NullCache
    from numba.core.compiler import CompileResult

    def double(x):
        return 2 * x

    function = numba.njit(double)
    assert isinstance(function._cache, NullCache), "dispatchers keep their cache in another attribute"
    for name in ("load_overload", "save_overload"):
        assert hasattr(NullCache, name), f"caches have no {name} any more"
    calls = []

    class Recorder(NullCache):
        def load_overload(self, signature, target):
            calls.append(("load", signature, target.codegen().magic_tuple()))

        def save_overload(self, signature, result):
            calls.append(("save", signature, result.codegen.magic_tuple()))
            self.result = result

    function._cache = Recorder()
    assert function(3) == 6
    assert [call[0] for call in calls] == ["load", "save"], "dispatchers do not ask their cache"
    assert calls[0][1:] == calls[1][1:], "the key of a compiled function is not stable"
    result = function._cache.result
    assert result.library.has_dynamic_globals is False
    again = CompileResult._rebuild(function.targetctx, *result._reduce())
    assert again.signature == result.signature, "results of compilation cannot be stored"
