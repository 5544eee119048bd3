import os
import shutil
from pathlib import Path

from asbc import kernels
from asbc.kernels import cache
from asbc.kernels.topk import keep_nearest

SOURCES = Path(kernels.__file__).parent


def test_compiled_code_is_named_after_the_contents_of_all_sources(tmp_path):
    one, two = tmp_path / "one", tmp_path / "elsewhere" / "two"
    for copy in (one, two):
        shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    os.utime(two / "topk.py", (0, 0))
    first = cache.folder_for(one, tmp_path)
    assert cache.folder_for(two, tmp_path) == first  # another environment, or a reinstallation
    (two / "lanes.py").write_text((two / "lanes.py").read_text() + "\n")
    assert cache.folder_for(two, tmp_path) != first  # an edit anywhere, because kernels contain each other


def test_numba_keeps_kernels_there():
    assert keep_nearest.stats.cache_path == str(cache.folder_for(SOURCES, cache.user_cache()))


def test_old_versions_go_and_folders_that_cannot_be_written_are_refused(tmp_path):
    for age in range(cache.KEPT_VERSIONS + 4):
        (tmp_path / str(age)).mkdir()
        os.utime(tmp_path / str(age), (10**9 - age, 10**9 - age))
    assert cache.make_folder(tmp_path / "new")
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"new", *(str(age) for age in range(cache.KEPT_VERSIONS - 1))}
    (tmp_path / "file").write_text("")
    assert not cache.make_folder(tmp_path / "file" / "below")
