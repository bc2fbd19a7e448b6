"""Run one embedded server for as long as a ``with`` block lasts.

For tests and commands that need a server of their own; ``make up`` has the supervisor instead.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from .errors import EmbeddedError
from .lifeline import tied_to_parent


class Server(Protocol):
    """What Postgres and Valkey have in common."""

    def prepare(self) -> None: ...
    def command(self) -> list[str]: ...
    def ready(self) -> bool: ...


def wait_ready(server: Server, process: subprocess.Popen[bytes], *, timeout_s: float) -> None:
    """Return once the server answers.

    Raises:
        EmbeddedError: it ended, or said nothing for ``timeout_s`` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while not server.ready():
        code = process.poll()
        if code is not None or time.monotonic() > deadline:
            ended = (
                f"ended with {code}" if code is not None else f"is not ready in {timeout_s:.0f} s"
            )
            raise EmbeddedError(
                f"{type(server).__name__} {ended}.", next_step="Its log has the reason."
            )
        time.sleep(0.02)


@contextlib.contextmanager
def running(server: Server, *, log: Path, timeout_s: float = 30.0) -> Iterator[None]:
    """Prepare, start and await the server; stop it at the end (SIGINT, after 10 s SIGKILL)."""
    server.prepare()
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603 - argv is built by us, no shell
            server.command(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=tied_to_parent(signal.SIGINT),
        )
    try:
        wait_ready(server, process, timeout_s=timeout_s)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
