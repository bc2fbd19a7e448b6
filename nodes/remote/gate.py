"""Is a card clean after a run? The same measure for the first look and for every later `clean`.

Owns the rule: no process of the run there, and used memory back to what it was at prepare plus
512 MiB, not counting what others use. Never waits long: the cards are asked, not watched.
"""

from __future__ import annotations

from typing import Any, Dict, Generator, List, Optional

from . import facts, tree
from .files import write_json
from .node import Node
from .paths import RunPaths
from .report import Report
from .waiting import Wait
from .watchful import recorded

SLACK_MIB = 512

Fact = Dict[str, Any]


def used_by(processes: List[Fact]) -> int:
    return sum(process["used_mib"] or 0 for process in processes)


def is_own(run: str, seen: Dict[int, int], process: Fact) -> bool:
    """By marker, or as one the keeper saw; one that is gone already still gives its memory back."""
    pid = process["pid"]
    if process["run"] == run:
        return True
    return pid in seen and (process["uid"] is None or tree.start_of(pid) == seen[pid])


def waiting_at(pid: int) -> Fact:
    """State and wait channel of a process that should be gone; empty where it is."""
    process = tree.read(pid)
    told = tree.told_of(process) if process is not None else {"state": "", "wchan": ""}
    return {name: told[name] for name in ("state", "wchan")}


def card_state(run: str, seen: Dict[int, int], baseline_mib: int, card: Optional[Fact]) -> Fact:
    """{"clean", "used_mib", "baseline_mib", "pids": of the run, "foreign": of anybody else}."""
    state = {"clean": False, "used_mib": None, "baseline_mib": baseline_mib}
    if card is None or card["used_mib"] is None or "processes" in card["errors"]:
        return dict(state, pids=[], foreign=[])
    own = [process for process in card["processes"] if is_own(run, seen, process)]
    foreign = [process for process in card["processes"] if process not in own]
    own = [dict(process, **waiting_at(process["pid"])) for process in own]
    used_mib = card["used_mib"]
    # what nobody can be named for counts against the run: its memory may be on its way out
    theirs_mib = used_by([process for process in foreign if process["uid"] is not None])
    below = used_mib - theirs_mib <= baseline_mib + SLACK_MIB
    return dict(state, clean=not own and below, used_mib=used_mib, pids=own, foreign=foreign)


def card_states(node: Node, paths: RunPaths) -> Generator[Wait, None, Dict[str, Fact]]:
    """The state of each card of a run's order, from the warm child."""
    order = facts.read(paths.order) or {}
    uuids = order.get("cards", [])
    if not uuids:
        return {}
    found = yield from node.nvml.ask({"ask": "cards", "uuids": uuids})
    cards = found.get("cards", {})
    baseline, seen = order.get("baseline_mib", {}), recorded(paths)
    return {u: card_state(paths.run, seen, baseline.get(u, 0), cards.get(u)) for u in uuids}


def gated(node: Node, reports: List[Report]) -> Generator[Wait, None, List[Report]]:
    """The reports, those of ended runs with the first look at their cards, kept for later."""
    for report in reports:
        if report["seq"] == 5 and report["cards"] is None:
            paths = node.root.run(report["run"])
            report["cards"] = yield from card_states(node, paths)
            if report["cards"]:
                write_json(paths.gate, {"cards": report["cards"]})
    return reports
