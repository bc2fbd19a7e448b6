"""The last line of a log that was cut short: who asked, when, the window, and what was saved.

Owns its words. The keeper writes it once nothing of the run is left. Never says anything of a run
that ended by itself, was cancelled, or never got going.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import List, Optional

from .files import Fact, write_all
from .stopping import Stopping

WHY = {
    "preempt": "preempted",
    "reclaim": "reclaimed",
    "drain": "drained",
    "fault": "stopped for a fault",
    "time_limit": "stopped at its time limit",
}


def line(
    stopping: Stopping, order: Fact, checkpoints: List[Fact], cut: bool, started_s: float
) -> Optional[str]:
    """The sentence, or None where nothing is to be said. GPUs are those of the whole job."""
    why = WHY.get(stopping.reason or "")
    if why is None or stopping.signalled_s is None or stopping.signalled_at_s is None:
        return None
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(stopping.signalled_at_s))
    window_s = stopping.kill_at_s - stopping.signalled_s
    told = ["{} at {}".format(stopping.note or why, at), "window {:.0f} s".format(window_s)]
    if order["node_rank"] == 0:
        last = max(checkpoints, key=lambda one: one["done_s"], default=None)
        asked_s = stopping.signalled_s - started_s
        told.append(saved(last, cut, asked_s))
        if order["cards"]:
            since_s = time.monotonic() - started_s - (last["done_s"] if last else 0.0)
            lost = int(order["world_size"] * max(0.0, since_s))
            told.append("{:,} GPU-seconds lost".format(lost))
    return "gangway: {}\n".format("; ".join(told))


def saved(last: Optional[Fact], cut: bool, asked_s: float) -> str:
    if cut and last is None:
        return "its only checkpoint was cut off"
    if last is None:
        return "no checkpoint"
    words = "checkpoint step {:,}".format(last["step"])
    if last["done_s"] >= asked_s:
        words += " saved after {:.0f} s".format(last["done_s"] - asked_s)
    else:
        words += " of {:,.0f} s before".format(asked_s - last["done_s"])
    return words + (", a later one was cut off" if cut else "")


def append(logs: List[Path], words: str) -> None:
    """To each log that is still a plain file; a full disk takes nothing away."""
    for log in logs:
        try:
            fd = os.open(str(log), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                write_all(fd, words.encode("utf-8", "replace"))
        except OSError:
            pass
        finally:
            os.close(fd)
