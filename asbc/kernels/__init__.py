"""Compiled inner loops: arrays in, arrays out."""

from __future__ import annotations

from pathlib import Path

from asbc.kernels.cache import keep_compiled_code
from asbc.kernels.compiling import watch

watch(__name__, keep_compiled_code(Path(__file__).parent))
