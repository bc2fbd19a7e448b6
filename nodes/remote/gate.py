"""Is a card clean after a run? The same measure for the first look and for every later `clean`.

Owns the rule: no process of the run there, and used memory back to what it was at prepare plus
512 MiB, not counting what others use. Never waits long: the cards are asked, not watched.
"""

from __future__ import annotations

from typing import Any, Dict, Generator, List, Optional

from .files import read_json, write_json
from .node import Node
from .paths import RunPaths
from .report import Report
from .waiting import Wait

SLACK_MIB = 512
FIRST_LOOK_S = 0.5

Fact = Dict[str, Any]


def used_by(processes: List[Fact]) -> int:
    return sum(process["used_mib"] or 0 for process in processes)


def card_state(run: str, baseline_mib: int, card: Optional[Fact]) -> Fact:
    """{"clean", "used_mib", "baseline_mib", "pids": of the run, "foreign": of anybody else}."""
    if card is None or card["used_mib"] is None:
        return {
            "clean": False,
            "used_mib": None,
            "baseline_mib": baseline_mib,
            "pids": [],
            "foreign": [],
        }
    own = [process for process in card["processes"] if process["run"] == run]
    foreign = [process for process in card["processes"] if process["run"] != run]
    used_mib = card["used_mib"]
    below = used_mib - used_by(foreign) <= baseline_mib + SLACK_MIB
    return {
        "clean": not own and below,
        "used_mib": used_mib,
        "baseline_mib": baseline_mib,
        "pids": own,
        "foreign": foreign,
    }


def card_states(node: Node, paths: RunPaths) -> Generator[Wait, None, Dict[str, Fact]]:
    """The state of each card of a run's order, from the warm child."""
    order = read_json(paths.order) or {}
    uuids = order.get("cards", [])
    if not uuids:
        return {}
    found = yield from node.nvml.ask({"ask": "cards", "uuids": uuids})
    cards = found.get("cards", {})
    baseline = order.get("baseline_mib", {})
    return {u: card_state(paths.run, baseline.get(u, 0), cards.get(u)) for u in uuids}


def gated(node: Node, reports: List[Report]) -> Generator[Wait, None, List[Report]]:
    """The reports, those of ended runs with the first look at their cards, kept for later."""
    for report in reports:
        if report["seq"] == 5 and report["cards"] is None:
            paths = node.root.run(report["run"])
            report["cards"] = yield from card_states(node, paths)
            if report["cards"]:
                write_json(paths.gate, {"cards": report["cards"]})
    return reports
