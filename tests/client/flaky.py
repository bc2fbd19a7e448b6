"""A wire that breaks: a TCP proxy on loopback that cuts connections after some bytes."""

import contextlib
import random
import socket
import threading
from collections.abc import Iterator


def dice(seed: int) -> random.Random:
    """Chance that is the same in every run."""
    return random.Random(seed)  # noqa: S311


class Flaky:
    """``cuts``: for each connection, after how many answer bytes it is cut (None: never).

    When they are used up, connections last.
    """

    def __init__(self, target: str, cuts: Iterator[int | None]) -> None:
        host, port = target.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self._cuts = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.accepted = 0
        self.cut = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: the story is over
            while True:
                near, _ = self._listener.accept()
                self.accepted += 1
                limit = next(self._cuts, None)
                threading.Thread(target=self._carry, args=(near, limit), daemon=True).start()

    def _carry(self, near: socket.socket, limit: int | None) -> None:
        far = socket.create_connection(self._target)
        threading.Thread(target=_pump, args=(near, far), daemon=True).start()
        if limit is None:
            _pump(far, near)
        elif limit < _pump(far, near, limit):
            self.cut += 1
        for end in (near, far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _pump(source: socket.socket, sink: socket.socket, limit: int | None = None) -> int:
    """Copy until the end or past ``limit``; how many bytes came."""
    came = 0
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            room = len(data) if limit is None else max(limit - came, 0)
            came += len(data)
            sink.sendall(data[:room])
            if limit is not None and came > limit:
                break
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
    return came
