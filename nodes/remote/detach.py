"""Leaving the process that answers requests: a fork that outlives it and its connection.

Owns the double fork, the closing of inherited files and the prctl calls. Never knows what is run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from pathlib import Path
from typing import Callable, Iterable

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
LIBC = ctypes.CDLL(None, use_errno=True)


def detached(work: Callable[[], None], name: str, trouble: Path, keep: Iterable[int] = ()) -> None:
    """Run `work` in a grandchild with a session of its own; returns at once.

    Args:
        trouble: where the traceback goes if the work breaks; nobody reads its stderr.
        keep: file descriptors it needs; all others are closed in it.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    # os._exit on every way out: this process must never return into the loop it was forked from
    try:
        if os.fork() == 0:
            os.setsid()
            cut_off(set(keep))
            set_name(name)
            work()
    except BaseException:  # the edge of a process nobody waits for: written down, never raised
        note(trouble)
    finally:
        os._exit(0)


def cut_off(keep: Iterable[int]) -> None:
    """Standard streams to /dev/null and every other inherited file closed."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    close_others(set(keep) | {0, 1, 2})
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def close_others(keep: Iterable[int]) -> None:
    kept = set(keep)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, not paths
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one listdir itself had open


def note(trouble: Path) -> None:
    try:
        with trouble.open("a") as log:
            log.write(traceback.format_exc())
    except OSError:
        pass  # a full disk may be what broke it


def set_name(name: str) -> None:
    LIBC.prctl(PR_SET_NAME, name.encode("ascii")[:15], 0, 0, 0)


def become_subreaper() -> None:
    """From now on orphans of our descendants become our children, not init's."""
    if LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER is refused here")


def die_with_parent(yes: bool = True) -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL if yes else 0, 0, 0, 0)
