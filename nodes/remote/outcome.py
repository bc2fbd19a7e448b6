"""How a run ended: exit or signal, whose end it was, and whether memory ran out.

Owns the words of ended.json. Never waits and never kills.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from .files import open_regular

OOM_WORDS = (b"CUDA out of memory", b"torch.OutOfMemoryError", b"torch.cuda.OutOfMemoryError")
TAIL_BYTES = 65536


class Exit(NamedTuple):
    """The end of one rank: an exit status or a signal, never both; `at_s` monotonic."""

    rank: int
    exit: Optional[int]
    signal: Optional[int]
    at_s: float

    def failed(self) -> bool:
        return self.exit != 0


def exit_of(rank: int, status: int) -> Exit:
    now_s = time.monotonic()
    if os.WIFSIGNALED(status):
        return Exit(rank, None, os.WTERMSIG(status), now_s)
    return Exit(rank, os.WEXITSTATUS(status), None, now_s)


def told(exits: List[Exit], own_end: bool, reason: Optional[str]) -> Dict[str, Any]:
    """The part of ended.json that says whose end it was.

    The outcome is the first rank that failed; ranks that were stopped because of it follow it.
    """
    failures = sorted((e for e in exits if e.failed()), key=lambda e: e.at_s)
    # who was asked to leave says by its first rank how it left: the others fall as they can
    decisive = failures[0] if failures and own_end else exits[0]
    stopped = "time_limit" if reason == "time_limit" else "stopped"
    return {
        "end": "exited" if own_end else stopped,
        "stop_reason": reason,
        "exit_before_term": own_end,
        "exit": decisive.exit,
        "signal": decisive.signal,
        "failed_rank": decisive.rank if failures and own_end else None,
        "exits": [{"rank": e.rank, "exit": e.exit, "signal": e.signal} for e in exits],
    }


def ran_out_of_memory(exits: List[Exit], logs: List[Path], kills_before: Optional[int]) -> bool:
    """True with evidence only: the cgroup counted a kill, or the log's end says so."""
    if not any(e.failed() for e in exits):
        return False
    killed = any(e.signal == signal.SIGKILL or e.exit == 128 + signal.SIGKILL for e in exits)
    kills = oom_kills()
    if killed and kills is not None and kills_before is not None and kills > kills_before:
        return True
    return any(word in tail_of(log) for log in logs for word in OOM_WORDS)


def tail_of(log: Path) -> bytes:
    try:
        with os.fdopen(open_regular(log), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
    except OSError:
        return b""


def oom_kills() -> Optional[int]:
    """How often the kernel killed in our memory cgroup (v2, else v1); None if it does not say."""
    for name in memory_files():
        try:
            lines = name.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            word, _, count = line.partition(" ")
            if word == "oom_kill" and count.strip().isdigit():
                return int(count)
    return None


def memory_files() -> List[Path]:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if number == "0":
            found.append(Path("/sys/fs/cgroup") / inside / "memory.events")
        elif "memory" in controllers.split(","):
            found.append(Path("/sys/fs/cgroup/memory") / inside / "memory.oom_control")
    return found
