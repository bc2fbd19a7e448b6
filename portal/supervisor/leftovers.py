"""What a killed supervisor left running is found by process number *and* start time.

A number alone is not enough: it may belong to a stranger by now. Such a stranger is never touched.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

from . import home as folder

FORMAT = 1


class Record(TypedDict):
    """One started process; ``start_ticks`` counts clock ticks since the machine's boot."""

    name: str
    pid: int
    start_ticks: int
    boot_id: str


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """When the process started, or None when it is gone (a zombie is gone)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    after_name = stat.rpartition(")")[2].split()  # a name may hold spaces and brackets
    return None if after_name[0] in "ZX" else int(after_name[19])


def record(name: str, pid: int) -> Record | None:
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    return Record(name=name, pid=pid, start_ticks=ticks, boot_id=boot_id())


def write(path: Path, records: Iterable[Record]) -> None:
    folder.write_private(path, {"format": FORMAT, "processes": list(records)})


def alive(entry: Any) -> bool:
    """True only if the very process that was recorded still runs."""
    if not isinstance(entry, dict) or entry.get("boot_id") != boot_id():
        return False
    ticks = start_ticks(int(entry.get("pid", 0)))
    return ticks is not None and ticks == entry.get("start_ticks")


def stop(path: Path, *, grace_s: float = 10.0) -> list[str]:
    """Stop what ``path`` lists and is still ours, last started first; returns the names.

    Each gets SIGINT for PostgreSQL, SIGTERM otherwise, and SIGKILL with its group after
    ``grace_s`` seconds for all together.
    """
    entries = [e for e in reversed(folder.read(path).get("processes", [])) if alive(e)]
    for entry in entries:
        polite = signal.SIGINT if entry["name"] == "postgres" else signal.SIGTERM
        with suppress(ProcessLookupError):
            os.kill(entry["pid"], polite)
    deadline = time.monotonic() + grace_s
    while any(map(alive, entries)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for entry in filter(alive, entries):
        with suppress(ProcessLookupError):
            os.killpg(entry["pid"], signal.SIGKILL)
    path.unlink(missing_ok=True)
    return [entry["name"] for entry in entries]
