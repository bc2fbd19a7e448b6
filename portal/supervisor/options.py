"""What the environment asks of ``make up``, checked before anything starts."""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import StartError

MOST_DEMO_NODES = 16
BASE_DIR = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Options:
    """``home`` holds the portal's files; ``demo`` asks for demo people and ``demo_nodes`` nodes."""

    home: Path
    host: str
    port: int
    url: str
    demo: bool
    demo_nodes: int = 3

    @property
    def bind(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read(environment: Mapping[str, str]) -> Options:
    """Raises StartError for an address that is none, and for a demo beyond loopback."""
    host, port = _split(environment.get("GANGWAY_BIND") or "127.0.0.1:8000")
    demo = environment.get("GANGWAY_DEMO", "1").lower() not in ("0", "false", "no", "off", "")
    if demo and not _is_loopback(host):
        raise StartError(
            f"GANGWAY_BIND={host}:{port} can be reached from other machines, and the demo's "
            "people and nodes are not safe there.",
            next_step="Set GANGWAY_DEMO=0 as well, or bind to 127.0.0.1.",
        )
    nodes = environment.get("GANGWAY_DEMO_NODES") or "3"
    if not nodes.isdecimal() or not 1 <= int(nodes) <= MOST_DEMO_NODES:
        raise StartError(
            f"GANGWAY_DEMO_NODES={nodes} is not a number from 1 to {MOST_DEMO_NODES}.",
            next_step="Leave it out for 3.",
        )
    home = Path(environment.get("GANGWAY_HOME") or BASE_DIR / ".gangway").resolve()
    url = environment.get("GANGWAY_URL") or f"http://{'127.0.0.1' if demo else host}:{port}"
    return Options(home=home, host=host, port=port, url=url, demo=demo, demo_nodes=int(nodes))


def _split(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise StartError(
            f"GANGWAY_BIND={bind} is not an address and a port.",
            next_step="Write it like 127.0.0.1:8000.",
        )
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_taken_port(host: str, port: int, *, what: str, next_step: str) -> None:
    """Raises StartError when something else listens there; costs one bind."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # As the servers do, so that a port in TIME_WAIT is not taken for one in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as taken:
            raise StartError(
                f"{what} cannot listen on {host} port {port}: {taken.strerror or taken}.",
                next_step=next_step,
            ) from taken
