"""Cleaning up after a run: are its cards clean, what it left in memory and /tmp, is it settled?

Owns the removal of the run's temporary files and of its live marker. Never removes the run folder,
and removes nothing of a run that is not over.
"""

from __future__ import annotations

import os
import shutil
from typing import Dict

from . import environment, facts, report, shared, tree
from .files import Fact
from .gate import card_states
from .node import Node
from .paths import RunPaths
from .protocol import Answer, Args, boolean, run_id
from .waiting import Steps, in_child

REMOVAL_LIMIT_S = 60.0


def clean(node: Node, args: Args) -> Steps:
    """{"clean", "cards"}; `settle` ends the portal's interest in a run that is over."""
    paths = node.root.run(run_id(args))
    settle = boolean(args, "settle", False)
    found = report.of(paths, node.boot)
    over = found["seq"] == 5 or found["state"] == "refused"
    nothing = found["state"] == "unknown"
    cards = yield from card_states(node, paths)
    if over and has_leftovers(paths):
        yield from in_child(lambda: remove_leftovers(paths), REMOVAL_LIMIT_S)
    if settle and over:
        paths.live.unlink(missing_ok=True)
    tidy = all(card["clean"] for card in cards.values())
    return {"clean": (over or nothing) and tidy, "cards": cards}


def named(paths: RunPaths, uid: int) -> Dict[str, int]:
    """Files of the run's user in /dev/shm that carry the run's id in their name: it made them."""
    found = shared.inodes()
    return {
        name: found[name]
        for name in found
        if paths.run in name and tree.owner_of_file(shared.SHM / name) == uid
    }


def account(paths: RunPaths) -> int:
    order = facts.read(paths.order)
    try:
        return environment.person(order).pw_uid if order else os.geteuid()
    except KeyError:  # the user was taken away since
        return os.geteuid()


def used(paths: RunPaths) -> Fact:
    """Shared memory that the keeper saw its processes use, and what is named after the run."""
    told = (facts.read(paths.seen) or {}).get("shared") or {}
    files = dict(told.get("files", {}), **named(paths, account(paths)))
    return {"files": files, "segments": told.get("segments", {})}


def has_leftovers(paths: RunPaths) -> bool:
    told, uid = used(paths), account(paths)
    return paths.tmp.exists() or bool(shared.left(told, uid) or shared.segments_left(told, uid))


def remove_leftovers(paths: RunPaths) -> Answer:
    shutil.rmtree(str(paths.tmp), ignore_errors=True)
    shared.remove(used(paths), account(paths))
    return {}
