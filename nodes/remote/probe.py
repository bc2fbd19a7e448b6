"""The node and its cards in one answer, and a try whether another machine can be reached.

Owns the probe and reach verbs. Never judges what it reads.
"""

from __future__ import annotations

import socket
import time

from . import environment, machine
from .node import Node
from .protocol import Answer, Args, bad_argument, integer, seconds, text
from .waiting import Steps, in_child

VERSION = 1
MAX_TIMEOUT_S = 30.0


def probe(node: Node, args: Args) -> Steps:
    """Facts of the node and every card; without NVML the node's alone, and why."""
    # lines are numbered anew with each boot
    same_boot = text(args, "kernel_boot", "") == node.boot
    since = integer(args, "kernel_since", -1, -1) if same_boot else -1
    cards = yield from node.nvml.ask({"ask": "probe", "kernel_since": since})
    user = environment.person({}).pw_name
    facts = machine.facts(node.root.path, user, node.filesystem, node.boot)
    if node.nvml.source.module.parent != node.bin_dir:
        facts.update(machine.pretended())
    return {
        "v": VERSION,
        "driver": cards.get("driver"),
        "nvml_error": cards["nvml_error"],
        "gpus": cards.get("gpus", []),
        "kernel": cards.get("kernel"),
        "node": facts,
    }


def reach(node: Node, args: Args) -> Steps:
    """Can a TCP connection be opened from here? In a child: names may resolve slowly."""
    host, port = text(args, "host"), integer(args, "port", 1)
    timeout_s = min(seconds(args, "timeout_s", 3.0), MAX_TIMEOUT_S)
    if port > 65535:
        raise bad_argument("port", "must be at most 65535, not {}".format(port))
    answer = yield from in_child(lambda: tried(host, port, timeout_s), timeout_s + 5.0)
    return answer


def tried(host: str, port: int, timeout_s: float) -> Answer:
    begun_s = time.monotonic()
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
        error = None
    except (OSError, UnicodeError) as broken:
        error = str(broken)
    elapsed_ms = round((time.monotonic() - begun_s) * 1000, 1)
    return {"reached": error is None, "error": error, "elapsed_ms": elapsed_ms}
