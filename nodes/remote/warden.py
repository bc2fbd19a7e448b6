"""Ending a run whose keeper was killed.

Owns the search for what is left: the marker in environments, the sessions and processes the keeper
wrote down, and their descendants. One warden a run, by a lock; it reads stop.json as a keeper does.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import List

from . import facts, report, tree
from .detach import detached
from .paths import RunPaths
from .stopping import Stopping
from .watchful import recorded

TICK_S = 0.08


def post(paths: RunPaths, boot: str) -> None:
    """Fork a warden; one that is there already hears the new order by itself."""
    detached(lambda: guard(paths, boot), "gangway-warden", paths.keeper_log)


def guard(paths: RunPaths, boot: str) -> None:
    lock = os.open(str(paths.warden_lock), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    seen = recorded(paths)

    def alive() -> List[tree.Process]:
        found = tree.of_run(str(paths.folder), 0, seen)
        # what was found once stays known, even if it loses every other sign
        seen.update((process.pid, process.start) for process in found)
        return found

    stopping = Stopping(paths, alive)
    heard = 0
    while alive():
        heard = hear(paths.stop, stopping, heard)
        stopping.tick()
        time.sleep(TICK_S)
    report.of(paths, boot)  # sees that nothing is left, and writes that down


def hear(stop: Path, stopping: Stopping, heard: int) -> int:
    stamp = stop.stat().st_mtime_ns
    order = facts.read(stop) if stamp != heard else None
    if order is not None:
        stopping.hear(order)
    return stamp
