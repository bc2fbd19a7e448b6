"""Which processes belong to a run, and nothing that merely got one of their numbers.

Owns reading /proc. Never sends a signal. A process is named by pid *and* start time (clock ticks
since boot), so a number used again is somebody else.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

PROC = Path("/proc")
# The folder, not the run id: the parts of one run may be on nodes that share a machine.
MARKER = b"GANGWAY_RUN_DIR="


class Process(NamedTuple):
    """One line of /proc/PID/stat, as far as needed; `start` in ticks since boot."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    start: int
    state: str


Table = Dict[int, Process]


def read(pid: int) -> Optional[Process]:
    """The process with this number now, or None."""
    try:
        fd = os.open("/proc/{}/stat".format(pid), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        line = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    # the name in brackets may itself hold brackets and spaces: count from the last one
    rest = line[line.rfind(b")") + 2 :].split()
    if len(rest) < 20:
        return None
    return Process(pid, int(rest[1]), int(rest[2]), int(rest[3]), int(rest[19]), rest[0].decode())


def start_of(pid: int) -> int:
    found = read(pid)
    return found.start if found else 0


def is_alive(pid: int, start: int) -> bool:
    """Is it still the same process, and not a zombie?"""
    found = read(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def pids() -> List[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - no Path a process


def scan() -> Table:
    """Every process of the machine; about 15 microseconds each."""
    found = (read(pid) for pid in pids())
    return {process.pid: process for process in found if process is not None}


def marker_of(pid: int) -> Optional[str]:
    """The run folder in the environment this process was started with, if it may be read."""
    try:
        fd = os.open("/proc/{}/environ".format(pid), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    data = b""
    try:
        chunk = os.read(fd, 65536)
        while chunk:
            data += chunk
            chunk = os.read(fd, 65536)
    except OSError:
        return None
    finally:
        os.close(fd)
    at = 0 if data.startswith(MARKER) else data.find(b"\0" + MARKER) + 1
    if not data.startswith(MARKER, at):
        return None
    return data[at + len(MARKER) :].split(b"\0", 1)[0].decode("utf-8", "replace")


def run_of(pid: int) -> Optional[str]:
    """The run a process belongs to by its own marker or that of an ancestor."""
    for _ in range(64):
        marker = marker_of(pid)
        if marker is not None:
            return os.path.basename(marker)  # noqa: PTH119 - asked of every process
        if pid <= 1:
            return None
        process = read(pid)
        if process is None:
            return None
        pid = process.ppid
    return None


def marked(folder: str) -> Set[int]:
    """Processes with the marker of this run folder, except the caller: those in no tree, too.

    Only those whose environment we may read are opened: for a plain user, its own.
    """
    me, uid = os.getpid(), os.geteuid()
    found = set()
    for pid in pids():
        if pid != me and (uid == 0 or owner_of(pid) == uid) and marker_of(pid) == folder:
            found.add(pid)
    return found


def owner_of(pid: int) -> int:
    """The uid a process runs under; -1 where it is gone."""
    try:
        return os.stat("/proc/{}".format(pid)).st_uid  # noqa: PTH116 - asked of every process
    except OSError:
        return -1


def owner_of_file(path: Path) -> int:
    """The uid of a plain file; -1 where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return -1
    return found.st_uid if stat.S_ISREG(found.st_mode) else -1


def told_of(process: Process) -> Dict[str, object]:
    """A process in words: its name, and where it waits if it cannot be ended."""
    found: Dict[str, object] = {"pid": process.pid, "state": process.state}
    for word, name in (("name", "comm"), ("wchan", "wchan")):
        try:
            text = (PROC / str(process.pid) / name).read_text(errors="replace").strip()
        except OSError:
            text = ""
        found[word] = text[:64]
    return found


def grown_from(table: Table, roots: Iterable[int]) -> Set[int]:
    """The given processes and all their descendants."""
    children: Dict[int, List[int]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found: Set[int] = set()
    todo = [pid for pid in roots if pid in table]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, []))
    return found


def below(pid: int) -> List[Process]:
    """All descendants of a process; the cost follows their number where the kernel lists them."""
    if not os.access("/proc/self/task/{}/children".format(os.getpid()), os.R_OK):
        table = scan()
        return [table[each] for each in grown_from(table, [pid]) - {pid}]
    found: Table = {}
    todo = children_of(pid)
    while todo:
        process = read(todo.pop())
        if process is not None and process.pid not in found:
            found[process.pid] = process
            todo += children_of(process.pid)
    return list(found.values())


def children_of(pid: int) -> List[int]:
    """As the kernel lists them, thread by thread."""
    found: List[int] = []
    try:
        for thread in os.listdir("/proc/{}/task".format(pid)):  # noqa: PTH208 - no Path a thread
            listed = PROC / str(pid) / "task" / thread / "children"
            found += [int(child) for child in listed.read_bytes().split()]
    except OSError:
        pass  # it has just left; its children are the keeper's now
    return found


def of_run(folder: str, keeper: int, seen: Dict[int, int]) -> List[Process]:
    """Everything alive of a run.

    Args:
        folder: the run's own, as its processes have it in GANGWAY_RUN_DIR.
        keeper: the process whose children are all of this run; 0 where it is gone.
        seen: pid -> start time of processes once seen in it. Needed only where the keeper is gone:
            while it lives, whatever loses its parent becomes its child.
    """
    table = scan()
    mine = marked(folder) | {p.pid for p in table.values() if keeper and p.ppid == keeper}
    mine |= {pid for pid, start in seen.items() if pid in table and table[pid].start == start}
    # a session outlives its leader, and its number is not given away while a member lives
    sessions = {sid for sid, start in seen.items() if sid not in table or table[sid].start == start}
    mine |= {p.pid for p in table.values() if p.sid in sessions and p.start >= seen[p.sid]}
    me = os.getpid()
    alive = (table[pid] for pid in grown_from(table, mine) if pid != me)
    return [process for process in alive if process.state not in "ZX"]
