"""What a keeper writes down while it lives, for whoever must find the run if it is killed.

Owns seen.json: pid -> start time of every process seen last in the run, at growing distances, and
the shared memory that any of them used.
Never decides anything.
"""

from __future__ import annotations

import os
import time
from typing import Dict, List

from . import facts, shared, tree
from .files import Fact, write_json
from .launch import Rank
from .paths import RunPaths

FIRST_S, LONGEST_S = 0.25, 10.0


class Seen:
    """Looks after 0.25 s, then at doubling distances up to 10 s; writes only what is new."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.known: Dict[int, int] = {}
        self.used = shared.Used()
        self.written: Fact = {}
        self.pause_s = FIRST_S
        self.next_s = time.monotonic() + FIRST_S

    def look(self, ranks: List[Rank], now: bool = False) -> None:
        """Called by the keeper: what descends from the caller is what is seen."""
        if time.monotonic() < self.next_s and not now:
            return
        self.write(ranks)

    def write(self, ranks: List[Rank]) -> None:
        now = {process.pid: process.start for process in tree.below(os.getpid())}
        self.pause_s = min(LONGEST_S, self.pause_s * 2)
        self.next_s = time.monotonic() + self.pause_s
        now.update((rank.pid, rank.start) for rank in ranks)
        self.used.look(now)
        fact: Fact = {"processes": {str(pid): now[pid] for pid in now}}
        fact["shared"] = self.used.told()
        if fact == self.written:
            return
        self.known, self.written = now, fact
        try:
            write_json(self.paths.seen, fact)
        except OSError:
            pass  # only a help in need; a full disk must not end the keeper


def recorded(paths: RunPaths) -> Dict[int, int]:
    """What the keeper saw last: pid -> start time, its ranks included."""
    started = facts.read(paths.started) or {}
    found = {rank["pid"]: rank["start"] for rank in started.get("ranks", [])}
    seen = facts.read(paths.seen) or {}
    found.update((int(pid), start) for pid, start in seen.get("processes", {}).items())
    return found
