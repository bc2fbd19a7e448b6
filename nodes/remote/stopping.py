"""Ending a whole tree: a signal first, the grace period in full, then KILL until nothing is left.

Owns the only kill() calls. Never decides that a run should end: keeper.py and warden.py do.
Deadlines are on CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Dict, List, Optional, Set

from . import tree
from .files import Fact, write_json
from .paths import RunPaths

TRIES = 5
STUCK_AFTER_S, TELL_S, MOST_STUCK = 5.0, 5.0, 8
STRENGTH = (
    "withdraw",
    "reclaim",
    "preempt",
    "drain",
    "contention",
    "fault",
    "time_limit",
    "cancel",
)


def strength(reason: Optional[str]) -> int:
    """The greater wins when two ask; an unknown reason is as weak as a withdrawal."""
    return STRENGTH.index(reason) if reason in STRENGTH else 0


Found = Callable[[], List[tree.Process]]


class Stopping:
    """One stop under way. `alive` lists what is left of the run; `tick` does what is due.

    `first` lists the process of rank 0 where it runs here, for a job that wants the signal there
    alone; the others are not signalled until rank 0 has left (`widen`) or the time is over.
    """

    def __init__(self, paths: RunPaths, alive: Found, first: Optional[Found] = None) -> None:
        self.paths, self.alive, self.first = paths, alive, first
        self.signalled_s: Optional[float] = None
        self.signalled_at_s: Optional[float] = None
        self.kill_at_s = float("inf")
        self.reason: Optional[str] = None
        self.note = ""
        self.signal_name = "TERM"
        self.to_first = False
        self.asked_at_s: Optional[float] = None
        self.stuck: List[Dict[str, object]] = []
        self.told_s = 0.0

    def begin(
        self, reason: Optional[str], grace_s: float, signal_name: str, to: str = "group"
    ) -> None:
        """Send the first signal; the grace period counts from here."""
        processes = self.alive()
        self.reason, self.signal_name = reason, signal_name
        self.signalled_s, self.signalled_at_s = time.monotonic(), time.time()
        self.kill_at_s = self.signalled_s + grace_s
        self.to_first = to == "rank0" and self.first is not None
        # written first: a job that asks in its signal handler must already find it
        self.announce()
        if self.to_first and self.first is not None:
            for process in self.first():
                quietly(os.kill, process.pid, number_of(signal_name))
        else:
            self.signal_all(processes)

    def signal_all(self, processes: List[tree.Process]) -> None:
        reached: Set[int] = set()
        for _ in range(TRIES):
            # a group whose known members have all just left may have gone on in new ones
            if send(processes, number_of(self.signal_name), reached):
                break
            processes = self.alive()

    def widen(self) -> None:
        """Rank 0 is through: now the others get the signal as well."""
        if self.to_first:
            self.to_first = False
            self.signal_all(self.alive())

    def hear(self, stop: Fact) -> None:
        """A stop order: begins the stop, or shortens it and strengthens its reason."""
        if self.signalled_s is None:
            self.asked_at_s, self.note = stop["asked_at_s"], stop.get("note", "")
            self.begin(stop["reason"], stop["grace_s"], stop["signal"], stop.get("to", "group"))
            return
        if self.reason is None or strength(stop["reason"]) > strength(self.reason):
            self.reason, self.note = stop["reason"], stop.get("note", "")
        if stop["asked_at_s"] != self.asked_at_s:
            self.asked_at_s = stop["asked_at_s"]
            self.kill_at_s = min(self.kill_at_s, time.monotonic() + stop["grace_s"])
        self.announce()
        if stop.get("to", "group") == "group":
            self.widen()

    def announce(self) -> None:
        """For `gangway-job stopping` and the job itself, which may run as another user."""
        left_s = self.kill_at_s - time.monotonic()
        fact = {
            "reason": self.reason,
            "note": self.note,
            "signal": self.signal_name,
            "kill_at_s": self.kill_at_s,
            "deadline_at_s": time.time() + left_s,
            "stuck": self.stuck,
        }
        try:
            write_json(self.paths.stopping, fact, mode=0o644)
        except OSError:
            pass  # a full disk must not keep a run from being stopped

    def tick(self) -> None:
        if time.monotonic() < self.kill_at_s:
            return
        left = self.alive()
        send(left, signal.SIGKILL, set())
        if left and time.monotonic() >= max(self.kill_at_s + STUCK_AFTER_S, self.told_s + TELL_S):
            # the kernel does not let them go: say who they are and what they wait for
            self.told_s = time.monotonic()
            self.stuck = [tree.told_of(process) for process in left[:MOST_STUCK]]
            self.announce()


def number_of(signal_name: str) -> int:
    number: int = getattr(signal, "SIG" + signal_name)
    return number


def send(processes: List[tree.Process], number: int, reached: Set[int]) -> bool:
    """Signal each group once (by pid what stands in the caller's own); False if one was gone.

    `reached` holds the groups that have had the signal, and grows.
    """
    mine, whole = os.getpgrp(), True
    groups: Dict[int, List[tree.Process]] = {}
    for process in processes:
        groups.setdefault(process.pgid, []).append(process)
    for pgid in set(groups) - reached:
        here = [member for member in groups[pgid] if tree.is_alive(member.pid, member.start)]
        if pgid == mine:
            for member in here:
                quietly(os.kill, member.pid, number)
        elif here:
            quietly(os.killpg, pgid, number)
            reached.add(pgid)
        else:
            whole = False
    return whole


def quietly(kill: Callable[[int, int], None], target: int, number: int) -> None:
    try:
        kill(target, number)
    except (ProcessLookupError, PermissionError):
        pass  # gone in between, or another user's by now; the next look decides
