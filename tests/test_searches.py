"""Tests of a kind of search are skipped, and do not fail, where its library is not installed."""

import re
import subprocess
import sys

import pytest

from tests.commands import ROOT
from tests.searches import LIBRARIES

FILES = ["tests/neighbors/test_search.py", "tests/outofcore/test_driver.py", "tests/outofcore/test_guard.py"]


@pytest.mark.slow
def test_what_needs_a_missing_library_is_skipped():
    code = f"import sys; sys.modules |= dict.fromkeys({list(LIBRARIES.values())}); import pytest; "
    code += "sys.exit(pytest.main(sys.argv[1:]))"
    chosen = " or ".join((*(f"[{search}]" for search in LIBRARIES), "index.faiss", "under_the_index"))
    command = [sys.executable, "-c", code, "-n", "0", *FILES, "-k", chosen]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert re.search(r"^\d+ skipped, \d+ deselected", result.stdout, re.M), result.stdout
