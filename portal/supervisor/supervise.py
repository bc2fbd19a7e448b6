"""Keep the children running, and stop them in the reverse of their order.

One thread does it all: a child's parent-death signal hangs on the thread that started it.
"""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from . import leftovers
from .children import Child, last_line, rotate
from .errors import StartError

LOOK_S = 0.1
ROTATE_S = 60.0


def say(text: str) -> None:
    """One line for the person at the terminal."""
    with suppress(OSError):  # a terminal that was closed must not keep us from stopping
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class Supervisor:
    """Children in the order they were started; ``record`` is the file that outlives us."""

    def __init__(self, record: Path) -> None:
        self.record = record
        self.children: list[Child] = []

    def add(self, child: Child) -> Child:
        self.children.append(child)
        child.start()
        self._write_down()
        return child

    def tend(self) -> None:
        """One look at every child: tell of each death, start again what is due."""
        changed = False
        for child in self.children:
            code = child.died()
            if code is not None:
                changed = True
                say(_obituary(child, code))
            if child.process is None and time.monotonic() >= child.due_at:
                child.start()
                changed = True
        if changed:
            self._write_down()

    def wait_for(
        self, ready: Callable[[], bool], child: Child, *, timeout_s: float = 120.0
    ) -> None:
        """Tend until ``ready``; raises StartError with the child's last words otherwise."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.tend()
            if time.monotonic() > deadline:
                said = last_line(child.log)
                raise StartError(
                    f"{child.name} did not get ready within {timeout_s:.0f} s"
                    + (f"; the last line of its log is: {said}" if said else "."),
                    next_step=f"Read {child.log}.",
                )
            time.sleep(0.05)

    def watch(self) -> None:
        """Tend for ever, and keep the logs short; KeyboardInterrupt is the way out."""
        while True:
            for child in self.children:
                rotate(child.log)
            again_at = time.monotonic() + ROTATE_S
            while time.monotonic() < again_at:
                self.tend()
                time.sleep(LOOK_S)

    def stop(self) -> None:
        """Ask and await tier by tier, the last started first; kill what outlasts its grace."""
        for tier in sorted({child.tier for child in self.children}, reverse=True):
            going = [c for c in self.children if c.tier == tier and c.process is not None]
            for child in going:
                child.ask_to_stop()
            deadline = time.monotonic() + max((c.grace_s for c in going), default=0.0)
            while any(c.died() is None and c.process is not None for c in going):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)
            for child in going:
                child.kill()
        self.record.unlink(missing_ok=True)

    def kill(self) -> None:
        """End everything at once."""
        for child in reversed(self.children):
            child.kill()
        self.record.unlink(missing_ok=True)

    def _write_down(self) -> None:
        running = [(c.name, c.process.pid) for c in self.children if c.process is not None]
        found = [leftovers.record(name, pid) for name, pid in running]
        leftovers.write(self.record, [entry for entry in found if entry is not None])


def _obituary(child: Child, code: int) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    wait_s = max(0.0, child.due_at - time.monotonic())
    return f"{child.name} {how} and starts again in {wait_s:.1f} s; its log is {child.log}."
