"""One child process: its words, its log, its life and its deaths."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from portal.embedded.lifeline import tied_to_parent

from .backoff import Backoff
from .errors import StartError

LOG_LIMIT_BYTES = 10 * 1024 * 1024


@dataclass
class Child:
    """A process to keep running. ``tier`` orders the stop: the greatest goes first."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    tier: int
    polite: signal.Signals = signal.SIGTERM
    grace_s: float = 10.0
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    due_at: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)

    def start(self) -> None:
        """Start it now; its output is appended to its log, its input is empty."""
        rotate(self.log)
        try:
            with self.log.open("ab") as out:
                self.process = subprocess.Popen(  # noqa: S603 - words of our Procfile, no shell
                    self.argv,
                    env=dict(self.env),
                    cwd=self.cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,  # Ctrl-C reaches us alone; we stop them in order
                    preexec_fn=tied_to_parent(self.polite),
                )
        except OSError as refused:
            raise StartError(
                f"{self.name} cannot be started: {self.argv[0]}: {refused.strerror}.",
                next_step="Run make install, then make up again.",
            ) from refused
        self.started_at = time.monotonic()

    def died(self) -> int | None:
        """Its exit code if it has died since the last look (negative: the signal), else None.

        Its process group goes with it: a worker without its master would answer for nobody.
        """
        if self.process is None or not _has_ended(self.process.pid):
            return None
        with suppress(ProcessLookupError, PermissionError):
            # Not reaped yet, so the number still belongs to it and to nobody else.
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.process = None
        lived_s = time.monotonic() - self.started_at
        wait_s, self.backoff = self.backoff.after(lived_s)
        self.due_at = time.monotonic() + wait_s
        return code

    def ask_to_stop(self) -> None:
        if self.process is not None:
            # Not Popen.send_signal: it would reap a dead child, and `died` could not look at it.
            os.kill(self.process.pid, self.polite)

    def kill(self) -> None:
        """SIGKILL the whole group and reap it."""
        if self.process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def rotate(log: Path) -> None:
    """Put a log of more than 10 MiB aside, also while it is written to (one older one is kept)."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)  # its writer appends, so it goes on at the new end


def last_line(log: Path) -> str:
    """The last line with something in it, for an error message; empty when there is none."""
    if not log.exists():
        return ""
    with log.open("rb") as written:
        written.seek(max(0, log.stat().st_size - 4096))
        lines = written.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""
