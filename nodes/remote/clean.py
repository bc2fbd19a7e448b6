"""Cleaning up after a run: are its cards clean, what it left in memory and /tmp, is it settled?

Owns the removal of the run's temporary files and of its live marker. Never removes the run folder,
and removes nothing of a run that is not over.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import List

from . import report
from .gate import card_states
from .node import Node
from .paths import RunPaths
from .protocol import Answer, Args, boolean, run_id
from .waiting import Steps, in_child

SHM = Path("/dev/shm")  # noqa: S108 - looked through, never written to
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


def shared_memory(paths: RunPaths) -> List[Path]:
    """Files in /dev/shm that carry the run's id in their name."""
    try:
        return [entry for entry in SHM.iterdir() if paths.run in entry.name]
    except OSError:
        return []


def has_leftovers(paths: RunPaths) -> bool:
    return paths.tmp.exists() or bool(shared_memory(paths))


def remove_leftovers(paths: RunPaths) -> Answer:
    shutil.rmtree(str(paths.tmp), ignore_errors=True)
    for entry in shared_memory(paths):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(str(entry), ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    return {}
