"""Shared memory that a run leaves behind: only what its own processes had mapped, open or made.

Owns the rule and the removal: files of /dev/shm that were not there before the run and that its
processes used, and System V segments that they made; each only while nobody alive uses it and it
belongs to the run's user. Never touches what merely looks alike, nor any file elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Set

from .detach import LIBC
from .files import Fact

SHM = Path("/dev/shm")  # noqa: S108 - watched over for the runs, nothing of ours lies there
SEGMENTS = Path("/proc/sysvipc/shm")
MOST = 4096
IPC_RMID = 0


class Segment(NamedTuple):
    """One line of /proc/sysvipc/shm."""

    number: int
    maker: int
    attached: int
    uid: int


class Used:
    """What the processes of a run use; `look` costs one read of /proc/PID/maps a process."""

    def __init__(self) -> None:
        self.before = set(inodes().values())
        self.segments_before = {segment.number for segment in segments()}
        self.files: Dict[str, int] = {}
        self.segments: Dict[str, int] = {}

    def look(self, pids: Iterable[int]) -> None:
        mine = set(pids)
        names = set().union(*(names_of(pid) for pid in mine)) if mine else set()
        there = inodes() if names else {}
        for name in names:
            inode = there.get(name)
            if inode is not None and inode not in self.before and len(self.files) < MOST:
                self.files[name] = inode
        for segment in segments():
            made = segment.maker in mine and segment.number not in self.segments_before
            if made and len(self.segments) < MOST:
                self.segments[str(segment.number)] = segment.maker

    def told(self) -> Fact:
        return {"files": dict(self.files), "segments": dict(self.segments)}


def inodes() -> Dict[str, int]:
    """What lies in /dev/shm now: name -> inode number."""
    try:
        with os.scandir(str(SHM)) as found:
            return {entry.name: entry.inode() for entry in found}
    except OSError:
        return {}


def names_of(pid: int) -> Set[str]:
    """Names in /dev/shm that a process has mapped or open."""
    found = set()
    prefix = "{}/".format(SHM)
    try:
        with open("/proc/{}/maps".format(pid), errors="replace") as lines:  # noqa: PTH123 - hot
            for line in lines:
                at = line.find(prefix)
                if at >= 0:
                    found.add(line[at + len(prefix) :].rstrip("\n"))
        for number in os.listdir("/proc/{}/fd".format(pid)):  # noqa: PTH208 - no Path a file
            target = os.readlink("/proc/{}/fd/{}".format(pid, number))  # noqa: PTH115 - likewise
            if target.startswith(prefix):
                found.add(target[len(prefix) :])
    except OSError:
        pass  # it has just left, or is another user's
    return {name for name in found if "/" not in name and not name.endswith(" (deleted)")}


def segments() -> List[Segment]:
    try:
        lines = SEGMENTS.read_text().splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        words = line.split()
        if len(words) > 7:
            found.append(Segment(int(words[1]), int(words[4]), int(words[6]), int(words[7])))
    return found


def left(told: Fact, uid: int) -> List[Path]:
    """Files of the run that are still there, whole and owned as they were."""
    found = []
    for name, inode in told.get("files", {}).items():
        path = SHM / name
        try:
            now = path.lstat()
        except OSError:
            continue
        if now.st_ino == inode and stat.S_ISREG(now.st_mode) and now.st_uid == uid:
            found.append(path)
    return found


def segments_left(told: Fact, uid: int) -> List[int]:
    known = {int(number): maker for number, maker in told.get("segments", {}).items()}
    return [
        segment.number
        for segment in segments()
        if known.get(segment.number) == segment.maker
        and segment.attached == 0
        and segment.uid == uid
    ]


def remove(told: Fact, uid: int) -> None:
    """Take away what the run left and nobody alive uses."""
    files = left(told, uid)
    used: Set[str] = set()
    if files:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
        used = set().union(*(names_of(pid) for pid in pids))
    for path in files:
        if path.name not in used:
            path.unlink(missing_ok=True)
    for number in segments_left(told, uid):
        LIBC.shmctl(ctypes.c_int(number), IPC_RMID, None)
