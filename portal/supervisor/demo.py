"""The demo's nodes, as words for manage.py, and the demo's people, as lines to print.

A demo node keeps its port for life: the portal knows it by address, as it knows any node.
"""

import itertools
import socket
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from string import ascii_lowercase

from . import home as folder
from .errors import StartError
from .options import BASE_DIR, refuse_taken_port

CARDS = 8
LOOK_ALIKE = BASE_DIR / "nodes" / "demo" / "nvml.py"
PORTS = range(22001, 32768)  # below those that outgoing connections borrow


@dataclass(frozen=True)
class DemoNode:
    """One SSH server on 127.0.0.1; everything of it lies below ``root``."""

    name: str
    port: int
    root: str

    @property
    def authorized_keys(self) -> str:
        return f"{self.root}/authorized_keys"

    def listens(self) -> bool:
        """True once it takes connections."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        except OSError:
            return False
        return True


def known(home: Path) -> list[DemoNode]:
    """The demo nodes that this folder has already."""
    listed = folder.read(home / "demo-nodes.json").get("nodes", [])
    return [DemoNode(**entry) for entry in listed]


def nodes(home: Path, count: int, *, ports: Iterable[int] = PORTS) -> list[DemoNode]:
    """The demo nodes of this folder; ``count`` of them are made up on the first call.

    They take the first of ``ports`` that are free.

    Raises:
        StartError: something else took the port of one.
    """
    found = known(home)
    if not found:
        names = [f"demo-{letter}" for letter in ascii_lowercase[:count]]
        free = itertools.filterfalse(_taken, ports)
        found = [DemoNode(name, next(free), str(home / "demo" / name)) for name in names]
        listed = {"format": 1, "nodes": [asdict(node) for node in found]}
        folder.write_private(home / "demo-nodes.json", listed)
    for node in found:
        Path(node.root).mkdir(parents=True, exist_ok=True)
        refuse_taken_port(
            "127.0.0.1",
            node.port,
            what=f"The demo node {node.name}",
            next_step=f"Stop what listens there, or remove {home} to begin anew.",
        )
    return found


def _taken(port: int) -> bool:
    try:
        refuse_taken_port("127.0.0.1", port, what="A demo node", next_step="")
    except StartError:
        return True
    return False


def serve_words(node: DemoNode) -> list[str]:
    return [
        *(sys.executable, "manage.py", "demo_node", "--name", node.name),
        *("--port", str(node.port), "--root", node.root, "--cards", str(CARDS)),
    ]


def enrol_words(node: DemoNode) -> list[str]:
    return [
        *("add_node", "127.0.0.1", "--port", str(node.port), "--name", node.name),
        *("--account", "demo", "--authorized-keys", node.authorized_keys, "--yes"),
        *("--nvml-module", str(LOOK_ALIKE)),
    ]


def people(home: Path, *, show_passwords: bool) -> list[str]:
    """A table of who can sign in; the passwords only when asked for."""
    path = home / "demo.json"
    found = folder.read(path).get("users", {})
    if not show_passwords:
        return [f"Sign in as {', '.join(found)}; their passwords are in {path}."]
    rows = [
        f"  {name:<8} {person['password']:<22} {person['team'] or '-':<8} {person['role']}"
        for name, person in found.items()
    ]
    head = f"  {'person':<8} {'password':<22} {'team':<8} role"
    return ["", head, *rows, "", f"Shown once; {path} keeps them, with an API token each."]
