"""Workers of a sweep on several cores: when they end."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from functools import cache


@cache
def end_with_parent() -> None:
    """End this process when the one that started it is gone, so that a killed sweep leaves no workers behind.

    Without it they would wait for work, and hold their memory, until they were killed too. What a worker has
    finished is on disk, and the next start goes on from there.
    """
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        threading.Thread(target=_watch, args=(parent.pid,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:  # an orphan belongs to another process at once
        time.sleep(0.5)
    os._exit(1)
