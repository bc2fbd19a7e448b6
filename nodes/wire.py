"""What the portal needs of a way to a machine: run a command, talk to one by lines, close.

``Wire`` is the protocol; ``LocalWire`` speaks it to this very machine through ``/bin/sh`` (the
twin that tests compare with SSH), ``transport.SshWire`` over the network. Commands are strings
that the portal itself makes; what people typed travels on stdin only. A wire knows nothing of
nodes, verbs or rows. A new way to a machine is a new class with these verbs.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .errors import NodeUnreachable

OUTPUT_LIMIT = 4 * 1024 * 1024
LINE_LIMIT = 2 * 1024 * 1024
STDERR_LIMIT = 4096
SILENCE_LIMIT_S = 90.0


@dataclass(frozen=True)
class Done:
    """How a command ended: exit status, and what it printed (stderr cut to its last 4 KiB)."""

    status: int
    stdout: bytes
    stderr: bytes


class Talk(Protocol):
    """A running command that is spoken to by lines. One reader; writers take turns."""

    def send(self, line: bytes, *, timeout_s: float) -> None: ...

    def next_line(self) -> bytes:
        """The next line without its end; empty when the command will say no more."""
        ...

    def complaint(self) -> str:
        """The end of what it printed on stderr, for people."""
        ...

    def close(self) -> None: ...


class Wire(Protocol):
    """A way to one machine. Every wait has a limit; passing it raises NodeUnreachable."""

    where: str

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float, limit: int = OUTPUT_LIMIT
    ) -> Done: ...

    def talk(self, command: str, *, timeout_s: float) -> Talk: ...

    def is_open(self) -> bool: ...

    def close(self) -> None: ...


class LineSplitter:
    """Cuts a stream of bytes into lines; a line over 2 MiB ends the stream."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._lines: list[bytes] = []
        self._rest: list[bytes] = []
        self._size = 0

    def next_line(self) -> bytes:
        while not self._lines:
            got = self._read()
            if not got or self._size + len(got) > LINE_LIMIT + 65536:
                return b""
            self._take(got)
        return self._lines.pop()

    def _take(self, got: bytes) -> None:
        head, *more = got.split(b"\n")
        self._rest.append(head)
        self._size += len(head)
        if not more:
            return
        whole = [b"".join(self._rest), *more[:-1]]
        self._lines = [line for line in reversed(whole) if line.strip()]
        self._rest, self._size = [more[-1]], len(more[-1])


def too_slow(where: str, what: str, limit_s: float) -> NodeUnreachable:
    """The error of a wait that passed its limit."""
    return NodeUnreachable(
        f"{where} did not {what} within {limit_s:.0f} s.",
        next_step="Check that the machine is up and not overloaded; it is tried again by itself.",
    )


def cut_off(where: str, why: object) -> NodeUnreachable:
    """The error of a connection that broke; ``why`` is what the library said."""
    said = str(why).strip() or type(why).__name__
    return NodeUnreachable(
        f"The connection to {where} broke: {said.rstrip('.')}.",
        next_step="The portal connects again by itself; what was running there goes on.",
    )


class LocalWire:
    """This machine, by ``/bin/sh -c``: the same verbs as SSH without the network."""

    def __init__(self, *, environment: dict[str, str] | None = None) -> None:
        self.where = "this machine"
        self._environment = {**os.environ, **(environment or {})}
        self._open = True

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float, limit: int = OUTPUT_LIMIT
    ) -> Done:
        try:
            done = subprocess.run(  # noqa: S603 - our own constant commands
                ["/bin/sh", "-c", command],
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                env=self._environment,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as slow:
            raise too_slow(self.where, "finish a command", timeout_s) from slow
        return Done(done.returncode, done.stdout[:limit], done.stderr[-STDERR_LIMIT:])

    def talk(self, command: str, *, timeout_s: float) -> "LocalTalk":
        return LocalTalk(command, self._environment)

    def is_open(self) -> bool:
        return self._open

    def close(self) -> None:
        self._open = False


class LocalTalk:
    """A child of this process, spoken to through pipes."""

    def __init__(self, command: str, environment: dict[str, str]) -> None:
        self._child = subprocess.Popen(  # noqa: S603 - our own constant commands
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        assert self._child.stdin and self._child.stdout  # noqa: S101 - both are pipes, see above
        self._down, self._up = self._child.stdin, self._child.stdout
        self._lines = LineSplitter(self._read)

    def send(self, line: bytes, *, timeout_s: float) -> None:
        give_up_at, rest = time.monotonic() + timeout_s, memoryview(line + b"\n")
        try:
            while rest:
                wait_s = give_up_at - time.monotonic()
                if wait_s <= 0 or not select.select([], [self._down], [], wait_s)[1]:
                    raise too_slow("this machine", "take a request", timeout_s)
                rest = rest[os.write(self._down.fileno(), rest[:4096]) :]
        except (OSError, ValueError) as gone:
            raise NodeUnreachable(
                "The runner on this machine has ended.", next_step="It is started again by itself."
            ) from gone

    def next_line(self) -> bytes:
        return self._lines.next_line()

    def _read(self) -> bytes:
        try:
            return self._up.read(65536) or b""
        except (OSError, ValueError):
            return b""

    def complaint(self) -> str:
        return ""

    def close(self) -> None:
        self._down.close()
        try:
            self._child.wait(2)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
