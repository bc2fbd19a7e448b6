"""Reading what there is: runs, logs, the node itself.

Owns look, tail and hello. Never changes anything.
"""

from __future__ import annotations

import base64
import os
import time
from typing import Any, Dict, List, Optional, Tuple

from . import facts, launch, machine, report
from .files import open_regular
from .gate import gated
from .node import Node
from .paths import RunPaths
from .protocol import Answer, Args, Refusal, bad_argument, integer, run_id, shown
from .waiting import Steps

MAX_CHUNK = 65536


def hello(node: Node, args: Args) -> Answer:
    return {
        "cargo": node.cargo,
        "boot_id": node.boot,
        "python": node.python,
        "wall_time_s": time.time(),
        "monotonic_s": time.monotonic(),
        "root": str(node.root.path),
    }


def look(node: Node, args: Args) -> Steps:
    """Every run not settled yet and those asked for; bounded by their number, not by history."""
    asked = asked_runs(args)
    names = sorted(set(node.root.live_runs()) | set(asked))
    reports = [report.of(node.root.run(name), node.boot) for name in names]
    known = yield from gated(node, [found for found in reports if found["state"] != "unknown"])
    there = {found["run"] for found in known}
    return {
        "boot_id": node.boot,
        "wall_time_s": time.time(),
        "loadavg": machine.loadavg(),
        "uptime_s": machine.uptime_s(),
        "reports": known,
        "unknown": [name for name in asked if name not in there],
    }


def asked_runs(args: Args) -> List[str]:
    runs = args.get("runs", [])
    if not isinstance(runs, list):
        raise bad_argument("runs", "must be a list of run ids, not {}".format(shown(runs)))
    return [run_id({"runs": run}, "runs") for run in runs]


def tail(node: Node, args: Args) -> Answer:
    """Bytes of a log from an offset; a negative offset counts from the end."""
    paths = node.root.run(run_id(args))
    rank = integer(args, "rank", 0, 0)
    offset = integer(args, "offset", -(1 << 62), 0)
    limit = min(integer(args, "limit", 0, MAX_CHUNK), MAX_CHUNK)
    order = facts.read(paths.order)
    if order is None:
        raise Refusal(
            "unknown_run",
            "request",
            "Run {} has no order on this node.".format(paths.run),
            "Ask the node the run was placed on.",
        )
    data, offset, size = chunk(paths, order, rank, offset, limit)
    gaps = (facts.read(paths.gap) or {}).get("gaps", {})
    return {
        "data": base64.b64encode(data).decode("ascii"),
        "offset": offset,
        "size": size,
        "gap": gaps.get(str(number_of(order, rank))),
    }


def number_of(order: Dict[str, Any], rank: int) -> int:
    """A part that is one process has one log, whichever of its ranks is asked for."""
    one = launch.several(order) == 1
    first: int = order["first_rank"]
    return first if one else rank


def chunk(
    paths: RunPaths, order: Dict[str, Any], rank: int, offset: int, limit: int
) -> Tuple[bytes, int, int]:
    several = launch.several(order)
    if several > 1 and not 0 <= rank - order["first_rank"] < several:
        first = order["first_rank"]
        here = "{} to {}".format(first, first + several - 1)
        raise bad_argument("rank", "must be {} here, not {}".format(here, rank))
    fd = opened(paths, rank, several)
    if fd is None:
        return b"", max(0, offset), 0
    try:
        size = os.fstat(fd).st_size
        offset = max(0, size + offset) if offset < 0 else offset
        return os.pread(fd, limit, offset), offset, size
    finally:
        os.close(fd)


def opened(paths: RunPaths, rank: int, several: int) -> Optional[int]:
    """The log, or None where there is none: nothing was started, or the job took it away."""
    try:
        return open_regular(paths.log(rank, several > 1))
    except OSError:
        return None
