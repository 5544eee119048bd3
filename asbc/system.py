"""What differs between operating systems, with fallbacks for those that lack it."""

from __future__ import annotations

import sys

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def peak_memory_bytes() -> int | None:
    """Return the largest memory that this process has used so far, and None where the system does not report it."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
