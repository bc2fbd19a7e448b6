"""Orders to nodes and their answers: start, look, stop, read one run. Knows runs, never jobs.

Every function takes a Node, speaks one verb over the kept channel and returns the answer's
dictionary; NodeRefused is an answer, NodeUnreachable is silence. No function here writes a row
or retries: callers load, speak, then write. Nothing here may be called in a transaction.
"""

import base64
from collections.abc import Iterable
from typing import Any

from . import channel
from .models import Node

Report = dict[str, Any]


def prepare(node: Node, order: dict[str, Any]) -> dict[str, Any]:
    """Check and write down an order; nothing is claimed. Raises NodeRefused with its class."""
    return channel.ask(node, "prepare", {"order": order}, timeout_s=20)


def go(node: Node, run_id: str) -> Report:
    """Start a prepared run, at most once ever; answers its report."""
    report: Report = channel.ask(node, "go", {"run": run_id}, timeout_s=15)["report"]
    return report


def stop(
    node: Node,
    run_id: str,
    *,
    grace_s: int,
    reason: str,
    signal: str = "TERM",
    to: str = "group",
    note: str = "",
) -> Report:
    """Ask a run to leave; an unknown one gets a tombstone, so that it never starts.

    ``to``: every process group, or rank 0 alone; ``note`` is what its log says in the end.
    """
    args = {"run": run_id, "grace_s": grace_s, "reason": reason, "signal": signal}
    args |= {"to": to, "note": note}
    report: Report = channel.ask(node, "stop", args, timeout_s=15)["report"]
    return report


def look(node: Node, run_ids: Iterable[str]) -> dict[str, Any]:
    """What the node says of all its live runs and of ``run_ids``."""
    return channel.ask(node, "look", {"runs": list(run_ids)}, timeout_s=10)


def clean(node: Node, run_id: str, *, settle: bool) -> dict[str, Any]:
    """Is every card of the run clean? With ``settle`` the node may forget to report it."""
    return channel.ask(node, "clean", {"run": run_id, "settle": settle}, timeout_s=20)


def tail(
    node: Node, run_id: str, *, rank: int, offset: int, limit: int = 65536
) -> tuple[bytes, int, int]:
    """Read a rank's log: (bytes, their offset, size now). A negative offset counts from the end."""
    args = {"run": run_id, "rank": rank, "offset": offset, "limit": limit}
    answer = channel.ask(node, "tail", args, timeout_s=10)
    return base64.b64decode(answer["data"]), int(answer["offset"]), int(answer["size"])


def probe(node: Node) -> dict[str, Any]:
    """The node's NVML facts and its own, one dictionary; a hung driver is in it, not raised.

    Of the kernel's log, the lines about cards that were not read in this boot yet.
    """
    read = {"kernel_since": node.kernel_cursor, "kernel_boot": node.boot_id}
    return channel.ask(node, "probe", read, timeout_s=30)
