"""What a run tells of its own progress: lines by `gangway-job`, folded by the keeper.

Owns the lines of progress.jsonl and what they add up to (saved.json). A checkpoint counts once it
was said to be done and its path was seen with something in it; one that was only begun never does,
and one whose path is being written over no longer does. Never decides what follows.
Times are CLOCK_MONOTONIC in the lines, and seconds since the start in what they add up to.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from .facts import number, whole, words
from .files import Fact, open_regular, write_json
from .paths import RunPaths

MOST_BYTES = 256 * 1024
KEPT_BYTES = 64 * 1024
CHECKPOINTS, OPEN, RANKS = 16, 64, 64
EVERY_S = 5.0


class Progress:
    """The fold of a run's lines; `look` costs one stat where nothing was told."""

    def __init__(self, paths: RunPaths, started_s: float) -> None:
        self.paths, self.started_s = paths, started_s
        self.offset, self.stamp, self.last_s = 0, (0, 0), 0.0
        self.count = self.written = 0
        self.checkpoints: List[Fact] = []
        self.open: Dict[Tuple[int, int], Fact] = {}
        self.ranks: Dict[int, Fact] = {}
        self.urgent, self.next_s = False, 0.0

    def look(self, last: bool = False) -> None:
        """Take what is new; write it down at once where it is of a checkpoint, else every 5 s."""
        try:
            self.read()
            if self.count > self.written and (last or self.urgent or self.due()):
                write_json(self.paths.saved, self.told())
                self.written, self.urgent = self.count, False
                self.next_s = time.monotonic() + EVERY_S
        except OSError:
            pass  # a full disk, or the job took its folder away: the next look tries again

    def due(self) -> bool:
        return time.monotonic() >= self.next_s

    def read(self) -> None:
        found = self.paths.progress.stat()
        stamp = (found.st_size, found.st_mtime_ns)
        if stamp == self.stamp:
            return
        if found.st_size < self.offset:
            self.offset = 0  # it was shortened: lines known already are told by their time
        self.offset = max(self.offset, found.st_size - 4 * MOST_BYTES)
        self.stamp = stamp
        for line in self.lines():
            self.take(line)

    def lines(self) -> List[bytes]:
        fd = open_regular(self.paths.progress)
        try:
            data = os.pread(fd, 4 * MOST_BYTES, self.offset)
        finally:
            os.close(fd)
        *whole_lines, rest = data.split(b"\n")
        self.offset += len(data) - len(rest)
        return whole_lines

    def take(self, line: bytes) -> None:
        told = parsed(line)
        if told is None or told["at_s"] <= self.last_s:
            return
        self.last_s = told["at_s"]
        self.count += 1
        {"begin": self.begin, "done": self.done, "progress": self.step}[told["what"]](told)

    def since(self, told: Fact) -> float:
        at_s: float = told["at_s"]
        return round(at_s - self.started_s, 3)

    def begin(self, told: Fact) -> None:
        """Whatever was complete at this path is being written over."""
        path = told.get("path")
        if path:
            self.checkpoints = [one for one in self.checkpoints if one["path"] != path]
        if len(self.open) < OPEN:
            key = (told["step"], told["rank"])
            self.open[key] = {"step": told["step"], "begun_s": self.since(told)}
        self.urgent = True

    def done(self, told: Fact) -> None:
        """One rank has saved; ranks that save parts of the same step add up to one checkpoint."""
        begun = self.open.pop((told["step"], told["rank"]), None)
        # a later one closes what an earlier one left open: it was given up
        self.open = {k: o for k, o in self.open.items() if k[0] >= told["step"]}
        found = [one for one in self.checkpoints if one["step"] == told["step"]]
        one = found[0] if found else None
        if one is None or one["path"] == told["path"]:
            self.checkpoints = [c for c in self.checkpoints if c["step"] != told["step"]]
            one = {"step": told["step"], "path": told["path"], "bytes": 0, "begun_s": None}
            one["rank"] = told["rank"]
            self.checkpoints = [*self.checkpoints, one][-CHECKPOINTS:]
        if told["rank"] < one["rank"]:
            one.update(rank=told["rank"], path=told["path"])
        one["bytes"] += told["bytes"]
        one["done_s"] = self.since(told)
        if begun is not None:
            known_s = one["begun_s"]
            one["begun_s"] = begun["begun_s"] if known_s is None else min(known_s, begun["begun_s"])
        self.urgent = True

    def step(self, told: Fact) -> None:
        if told["rank"] in self.ranks or len(self.ranks) < RANKS:
            names = ("step", "seconds", "comm_s")
            self.ranks[told["rank"]] = {name: told.get(name) for name in names}
            self.ranks[told["rank"]]["at_s"] = self.since(told)

    def complete(self) -> List[Fact]:
        """Checkpoints that count, oldest first: all their ranks are through."""
        still = {step for step, _ in self.open}
        return [one for one in self.checkpoints if one["step"] not in still]

    def told(self) -> Fact:
        """The fold as it is written and reported; `n` counts up with every line."""
        last = max(self.ranks.values(), key=lambda one: one["at_s"], default=None)
        return {
            "n": self.count,
            "checkpoints": self.complete(),
            "open": list(self.open.values()),
            "step": last["step"] if last else None,
            "ranks": {str(rank): self.ranks[rank] for rank in sorted(self.ranks)},
        }


def parsed(line: bytes) -> Optional[Fact]:
    """A line of progress.jsonl, or None: a job may write what it likes there."""
    try:
        told: Any = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    shape = isinstance(told, dict) and whole(told.get("step")) and whole(told.get("rank"))
    if not shape or not number(told.get("at_s")) or told["step"] < 0 or told["rank"] < 0:
        return None
    check = {"begin": is_begin, "done": is_done, "progress": is_progress}.get(told.get("what"))
    return told if check is not None and check(told) else None


def is_begin(told: Fact) -> bool:
    return told.get("path") is None or words(told["path"])


def is_done(told: Fact) -> bool:
    path = words(told.get("path")) and told["path"].startswith("/")
    return path and whole(told.get("bytes")) and told["bytes"] > 0


def is_progress(told: Fact) -> bool:
    return number(told.get("seconds")) and (told.get("comm_s") is None or number(told["comm_s"]))


def tell(path: Path, fact: Fact) -> None:
    """Append one line under the file's lock; a long file keeps its newest lines. For the job."""
    fd = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        # under the lock, so that the order of the lines is that of their times
        line = json.dumps(dict(fact, at_s=time.monotonic())).encode("ascii") + b"\n"
        size = os.fstat(fd).st_size
        if size > MOST_BYTES:
            tail = os.pread(fd, KEPT_BYTES, size - KEPT_BYTES).split(b"\n", 1)[-1]
            os.pwrite(fd, tail, 0)
            os.ftruncate(fd, len(tail))
            size = len(tail)
        os.pwrite(fd, line, size)
    finally:
        os.close(fd)
