"""Making a machine a node: key, host key, checks, cargo, inventory, and one row at the very end.

`prepared` gives the node its key pair, which waits in a file until the machine lets it in, so
that a failed try can be repeated with the line that was already handed out. `examined` speaks to
the machine and writes no row; `written` writes rows and speaks to nobody. Never: pools, which
belong to the floor above; questions to people, which the command asks.
"""

import json
import re
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from . import channel, clock, inventory, keys, survey, transport
from .errors import EnrolmentFailed
from .models import Node

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
PLAIN_PATH = re.compile(r"[~/][A-Za-z0-9_@%+=:,./ -]{0,900}")
HELLO_LIMIT_S, PROBE_LIMIT_S = 15.0, 40.0


@dataclass(frozen=True)
class Wish:
    """What the operator asked for."""

    name: str
    address: str
    port: int = 22
    account: str = "gangway"
    root: str = ""
    nvml_module: str = ""
    nvml_library: str = ""
    rack: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    take_over: bool = False


@dataclass(frozen=True)
class Examined:
    """A machine that may be a node: the unsaved row, its first probe, and what to tell."""

    node: Node
    probe: dict[str, Any]
    at: datetime
    remarks: list[str]


def prepared(wish: Wish) -> Node:
    """The node as wished, not saved: the known one of that name with its key, or a new one."""
    _refuse_odd(wish)
    node = Node.objects.filter(name=wish.name).first() or _pending(wish.name)
    node.address, node.port, node.account = wish.address, wish.port, wish.account
    node.nvml_module, node.nvml_library = wish.nvml_module, wish.nvml_library
    node.rack = wish.rack or node.rack
    node.labels = {**node.labels, **wish.labels}
    node.root = wish.root or node.root or default_root(node)
    return node


def default_root(node: Node) -> str:
    return f"~/.gangway-node/{settings.GANGWAY_INSTANCE}/{node.uuid}"


def _refuse_odd(wish: Wish) -> None:
    if not settings.GANGWAY_INSTANCE:
        raise EnrolmentFailed(
            "This portal has no instance number yet, which nodes are owned by.",
            next_step="Start it once with make up, or set GANGWAY_INSTANCE to a UUID of your own.",
        )
    if not NAME.fullmatch(wish.name):
        raise EnrolmentFailed(
            f"{wish.name!r} cannot be a node's name.",
            next_step="Give --name 1 to 63 lower-case letters, digits, dots and hyphens.",
        )
    if wish.root and not PLAIN_PATH.fullmatch(wish.root):
        raise EnrolmentFailed(
            f"The folder {wish.root!r} is not an absolute path in plain characters.",
            next_step="Give --root beginning with / or ~/, of letters, digits and . _ - + only.",
        )


def _pending(name: str) -> Node:
    """A new node with the key pair that an earlier, failed try handed out, or a fresh one."""
    file = _pending_file(name)
    if not file.exists():
        pair = keys.new_pair()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = {"uuid": str(_uuid_of(name)), "public": pair.public, "sealed": pair.sealed}
        spare = file.with_suffix(".part")
        spare.touch(mode=0o600)
        spare.write_text(json.dumps(kept))
        spare.replace(file)
    kept = json.loads(file.read_text())
    return Node(
        name=name,
        uuid=uuid.UUID(kept["uuid"]),
        public_key=kept["public"],
        private_key=kept["sealed"],
    )


def _uuid_of(name: str) -> uuid.UUID:
    """The same for the same name in the same portal, so that a lost database finds its runs."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{settings.GANGWAY_INSTANCE}/{name}")


def _pending_file(name: str) -> Path:
    return settings.GANGWAY_HOME / "pending-nodes" / f"{name}.json"


def source_address(node: Node) -> str:
    """The address from which this machine reaches the node, for ``from=``; nothing is sent."""
    with socket.socket(_family(node), socket.SOCK_DGRAM) as probe:
        probe.connect((node.address, node.port))
        return str(probe.getsockname()[0])


def _family(node: Node) -> socket.AddressFamily:
    try:
        return socket.getaddrinfo(node.address, node.port, type=socket.SOCK_STREAM)[0][0]
    except socket.gaierror as unknown:
        raise EnrolmentFailed(
            f"The name {node.address} is not known here: {unknown.strerror}.",
            next_step="Check the spelling, or give an IP address.",
        ) from unknown


def pin(node: Node, *, trusts: Callable[[str, str], bool]) -> None:
    """Pin the key the machine shows, if it is the known one or ``trusts(fingerprint, was)``.

    ``was`` is the fingerprint pinned before, empty for a new node.
    """
    shown = transport.host_key_of(node.address, node.port)
    if shown == node.host_key:
        return
    was = keys.fingerprint(node.host_key) if node.host_key else ""
    if not trusts(keys.fingerprint(shown), was):
        raise EnrolmentFailed(
            f"The host key {keys.fingerprint(shown)} of {node.address} was not accepted.",
            next_step="Compare it with ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there.",
        )
    node.host_key = shown


def examined(node: Node, *, take_over: bool = False) -> Examined:
    """Log in, check the machine, ship the cargo, take the first probe. Writes no row.

    Raises KeyRejected, HostKeyChanged, NodeUnreachable, NodeRefused or EnrolmentFailed.
    """
    wire = channel.wire_to(node)
    try:
        ground = survey.look_around(wire, node.root)
        node.root = ground.root
        speaker = channel.speaker_on(wire, node, take_over=take_over)
        speaker.ask("hello", {}, HELLO_LIMIT_S)
        at = clock.now()
        probe = speaker.ask("probe", {}, PROBE_LIMIT_S)
        speaker.end()
    finally:
        wire.close()
    return Examined(node, probe, at, _remarks(node, probe, ground))


def _remarks(node: Node, probe: dict[str, Any], ground: survey.Ground) -> list[str]:
    return survey.judge(probe, ground, node.address, pretended=bool(node.nvml_module))


@transaction.atomic
def written(examined: Examined) -> Node:
    """Write the node and its cards. An alarm is cleared: an operator just looked into it."""
    node = examined.node
    node.alarm = node.silence = ""
    node.missed_looks, node.liveness, node.seen_at = 0, Node.Liveness.UP, examined.at
    node.save()
    inventory.take_in(node, examined.probe, examined.at)
    transaction.on_commit(lambda: _pending_file(node.name).unlink(missing_ok=True))
    node.refresh_from_db()
    return node
