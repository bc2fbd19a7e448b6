"""Start or refusal: both contend for one name, claim.json, and the first wins for good.

Owns `go` and the tombstone. Never starts a command itself: the keeper that won the claim does, so
that whoever crashes in between leaves a claim without a keeper and never a second start.
"""

from __future__ import annotations

import os
import time

from . import facts, report, tree
from .detach import detached
from .files import link_json
from .gate import gated
from .keeper import Keeper
from .node import Node
from .paths import RunPaths
from .protocol import Answer, Args, Refusal, run_id
from .waiting import Steps, Wait

START_LIMIT_S = 5.0
AGAIN_S = 0.01


def refuse(paths: RunPaths, boot: str, reason: str) -> bool:
    """Lay the tombstone: True if no start can follow, False if a start was first."""
    paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return link_json(paths.claim, {"claim": "refused", "boot_id": boot, "reason": reason})


def go(node: Node, args: Args) -> Steps:
    """Start a prepared run, once however often it is asked; answers when it has started."""
    paths = node.root.run(run_id(args))
    until_s = time.monotonic() + START_LIMIT_S
    if facts.read(paths.claim) is None:
        ready = start_keeper(node, paths)
        try:
            yield Wait(until_s, ready)
        finally:
            os.close(ready)
    while True:
        found = report.of(paths, node.boot)
        if found["state"] != "prepared":
            reports = yield from gated(node, [found])
            answer: Answer = {"report": reports[0]}
            return answer
        if time.monotonic() >= until_s:
            raise Refusal(
                "slow_start",
                "node",
                "Run {} was claimed but has not started in {:g} s.".format(
                    paths.run, START_LIMIT_S
                ),
                "Look at the run again; it is started already or will be.",
            )
        yield Wait(time.monotonic() + AGAIN_S)


def start_keeper(node: Node, paths: RunPaths) -> int:
    """Fork a keeper for the run; the returned pipe ends when it has started or lost the claim."""
    order = facts.read(paths.order)
    # an order of an earlier boot does not count: its claim may have been lost with the power
    if order is None or order["boot_id"] != node.boot:
        raise Refusal(
            "not_prepared",
            "request",
            "Run {} has no order of this boot here.".format(paths.run),
            "Send prepare first, then go.",
        )
    node.root.mark_live(paths)
    reader, writer = os.pipe()

    def keep() -> None:
        fact = {"claim": "start", "boot_id": node.boot, "pid": os.getpid()}
        claim = dict(fact, start=tree.start_of(os.getpid()))
        if link_json(paths.claim, claim):
            Keeper(paths, order, claim, node.bin_dir).keep(writer)

    detached(keep, "gangway-keeper", paths.keeper_log, keep=[writer])
    os.close(writer)
    return reader
