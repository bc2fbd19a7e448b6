"""The processes of a demo node: started for an SSH command, and all ended with the node.

Whatever starts here, keepers and jobs included, stays a descendant of this process once it is
the subreaper of all; a node that was killed and started again knows the earlier ones by their
environment. Never: a process that this demo node did not start.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# A keeper gives its command a clean environment, and these stay in it.
MARKERS = ("GANGWAY_FAKE_FOLDER", "GANGWAY_RUN_DIR", "HOME", "TMPDIR")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with(parent_pid: int) -> None:
    """Get SIGTERM when the parent dies, even if it died just now."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGTERM)


class Processes:
    """What runs on one demo node, whose folder is ``folder``.

    ``alone`` says that this process is nothing but the node, so all below it is the node's.
    """

    def __init__(self, folder: Path, environment: dict[str, str], *, alone: bool = False) -> None:
        self._folder = folder
        self._environment = environment
        self._alone = alone
        self._ours: set[int] = set()
        self._lock = threading.Lock()

    def start(self, command: str) -> "subprocess.Popen[bytes]":
        """Run ``command`` by /bin/sh in the node's home, its own session, three pipes."""
        with self._lock:
            child = subprocess.Popen(  # noqa: S603 - what an SSH client with the key asks for
                ["/bin/sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._environment["HOME"],
                env=self._environment,
                start_new_session=True,
                bufsize=0,
            )
            self._ours.add(child.pid)
        return child

    def finish(self, child: "subprocess.Popen[bytes]") -> int:
        """Wait for the end of a started command: its exit status, 128 + signal if killed."""
        status = child.wait()
        with self._lock:
            self._ours.discard(child.pid)
        return status if status >= 0 else 128 - status

    def reap_orphans(self) -> None:
        """Take the exit status of adopted processes, and leave the started ones to `finish`."""
        if not self._alone:
            return
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, ended)) is not None:
                if not self._reap(found.si_pid):
                    # One of the started ones stands first in the queue: look at each behind it.
                    for pid in _children_of(os.getpid()):
                        self._reap(pid)
                    return

    def _reap(self, pid: int) -> bool:
        with self._lock:
            if pid in self._ours:
                return False
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            return True

    def end_all(self, patience_s: float = 10.0) -> None:
        """Kill all descendants and whatever an earlier life of this node left; wait for it."""
        give_up_at = time.monotonic() + patience_s
        while time.monotonic() < give_up_at:
            alive = self.alive()
            if not alive:
                return
            for pid in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self.reap_orphans()
            time.sleep(0.02)

    def alive(self) -> list[int]:
        """Pids of everything that runs on this node now; zombies do not count."""
        parents = _parents()
        found = {pid for pid in parents if self._carries_marker(pid)}
        with self._lock:
            tops = {os.getpid()} if self._alone else set(self._ours)
        found |= tops | _descendants(tops, parents)
        return sorted(pid for pid in found if pid != os.getpid() and _state(pid) not in "ZX")

    def _carries_marker(self, pid: int) -> bool:
        try:
            pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        inside = os.fsencode(self._folder)
        names = tuple(os.fsencode(name) for name in MARKERS)
        return any(
            name in names and (value == inside or value.startswith(inside + b"/"))
            for name, _, value in (pair.partition(b"=") for pair in pairs)
        )


def _state(pid: int) -> str:
    return _stat(pid)[0]


def _stat(pid: int) -> tuple[str, int]:
    """State letter and parent of a process; X and 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[1])


def _parents() -> dict[int, int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid: _stat(pid)[1] for pid in pids}


def _children_of(parent: int) -> list[int]:
    return [pid for pid, its_parent in _parents().items() if its_parent == parent]


def _descendants(tops: set[int], parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    level = tops
    while level:
        level = {pid for pid, parent in parents.items() if parent in level} - found
        found |= level
    return found
