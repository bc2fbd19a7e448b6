"""Asking a run to end, and giving it another time limit.

Owns stop.json and limit.json. Never signals anything: the keeper reads the order and acts, and
where the keeper is gone a warden takes its place. A run that never started gets its tombstone.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Any, Dict, Optional

from . import facts, report, warden
from .claim import refuse
from .files import write_json
from .gate import gated
from .node import Node
from .paths import RunPaths
from .protocol import (
    Answer,
    Args,
    Refusal,
    bad_argument,
    receiver,
    run_id,
    seconds,
    signal_name,
    text,
)
from .stopping import strength
from .waiting import Steps

MOST_NOTE = 1000


def stop(node: Node, args: Args) -> Steps:
    """Refuse a run that has not started, stop one that has; answers before the end."""
    paths = node.root.run(run_id(args))
    order: Dict[str, Any] = {
        "grace_s": seconds(args, "grace_s"),
        "reason": text(args, "reason"),
        "signal": signal_name(args),
        "to": receiver(args, "to"),
        "note": text(args, "note", "")[:MOST_NOTE],
        "asked_at_s": time.monotonic(),
    }
    found = report.of(paths, node.boot)
    if facts.read(paths.claim) is None and found["state"] in ("unknown", "prepared"):
        refuse(paths, node.boot, order["reason"])
        found = report.of(paths, node.boot)
    if found["state"] in ("prepared", "started", "unsupervised") and found["seq"] != 5:
        write_stop(paths, order)
        if found["state"] == "unsupervised":
            warden.post(paths, node.boot)
            found = report.of(paths, node.boot)
    reports = yield from gated(node, [found])
    answer: Answer = {"report": reports[0]}
    return answer


def write_stop(paths: RunPaths, order: Dict[str, Any]) -> None:
    """One order stands: a later stop can only shorten the deadline or strengthen the reason."""
    paths.folder.mkdir(mode=0o700, exist_ok=True)
    folder = os.open(str(paths.folder), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        write_json(paths.stop, merged(facts.read(paths.stop), order))
    finally:
        os.close(folder)


def merged(old: Optional[Dict[str, Any]], new: Dict[str, Any]) -> Dict[str, Any]:
    if old is None:
        return new
    stronger = new if strength(new["reason"]) > strength(old["reason"]) else old
    sooner = min(old, new, key=lambda order: order["asked_at_s"] + order["grace_s"])
    to = "rank0" if old.get("to") == new.get("to") == "rank0" else "group"
    said = {"reason": stronger["reason"], "note": stronger.get("note", ""), "to": to}
    return dict(sooner, signal=old["signal"], **said)


def extend(node: Node, args: Args) -> Answer:
    """Another time limit, counted from the start; null takes the limit away."""
    paths = node.root.run(run_id(args))
    if "limit_s" not in args:
        raise bad_argument("limit_s", "is missing")
    limit_s = None if args["limit_s"] is None else seconds(args, "limit_s")
    found = report.of(paths, node.boot)
    if found["state"] not in ("prepared", "started"):
        raise Refusal(
            "not_running",
            "request",
            "Run {} is {}; its time limit cannot be moved.".format(paths.run, found["state"]),
            "Look at the run; only one that has not ended can be extended.",
        )
    write_json(paths.limit, {"limit_s": limit_s})
    return {"report": found}
