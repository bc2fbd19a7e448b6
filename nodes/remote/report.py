"""What a run's files add up to: one report, the same facts for the same (run, seq).

Owns the words prepared, refused, started, ended and unsupervised, and who says them: a look, an
event, and the answers of go and stop all come from `of`. Never changes a run, but for one thing:
the end of a run whose keeper is gone is written down by whoever sees that nothing is left of it.
"""

from __future__ import annotations

import base64
import time
from typing import Any, Dict, Optional

from . import facts, tree
from .files import link_json, read_regular, size_of
from .paths import RunPaths
from .watchful import recorded

SEQ = {"prepared": 1, "refused": 2, "started": 3, "ended": 5}
HEAD_BYTES = 16 * 1024
Report = Dict[str, Any]


def of(paths: RunPaths, boot: str) -> Report:
    """The report of a run that has a folder here; state "unknown" where nothing was written."""
    ended = facts.read(paths.ended)
    if ended is not None:
        return end_report(paths, ended)
    claim = facts.read(paths.claim)
    if claim is None:
        order = facts.read(paths.order)
        if order is None:
            return without_record(paths, boot)
        return blank(paths, "prepared", SEQ["prepared"], order["boot_id"])
    if claim["claim"] == "refused":
        refused = blank(paths, "refused", SEQ["refused"], claim["boot_id"])
        refused["stop_reason"] = claim["reason"]
        return refused
    if claim["boot_id"] == boot and tree.is_alive(claim["pid"], claim["start"]):
        return running(paths, claim)
    return unsupervised(paths, claim, boot)


def without_record(paths: RunPaths, boot: str) -> Report:
    """No word of it in its folder: unknown, unless the folder was taken away while it ran."""
    alive = len(tree.marked(str(paths.folder))) if paths.live.exists() else 0
    if alive == 0:
        return blank(paths, "unknown", 0, boot)
    return dict(blank(paths, "unsupervised", 4, boot), alive=alive)


def blank(paths: RunPaths, state: str, seq: int, boot: Optional[str]) -> Report:
    return {
        "run": paths.run,
        "seq": seq,
        "state": state,
        "boot_id": boot,
        "started_at_s": None,
        "ended_at_s": None,
        "ran_s": None,
        "exit": None,
        "signal": None,
        "failed_rank": None,
        "end": None,
        "stop_reason": None,
        "exit_before_term": False,
        "ranks": [],
        "log": {},
        "cards": None,
        "head": None,
        "oom": False,
        "alive": None,
        "asked_s": None,
        "holds": (facts.read(paths.order) or {}).get("cards", []),
        "progress": None,
        "stuck": [],
    }


def running(paths: RunPaths, claim: Dict[str, Any]) -> Report:
    started = facts.read(paths.started)
    if started is None:
        return blank(paths, "prepared", SEQ["prepared"], claim["boot_id"])
    report = blank(paths, "started", SEQ["started"], claim["boot_id"])
    fill_started(report, paths, started)
    report["stuck"] = (facts.read(paths.stopping) or {}).get("stuck", [])
    return report


def fill_started(report: Report, paths: RunPaths, started: Dict[str, Any]) -> None:
    report["started_at_s"] = started["started_at_s"]
    report["progress"] = facts.read(paths.saved)
    ranks = started["ranks"]
    report["ranks"] = [{"rank": rank["rank"], "exit": None, "signal": None} for rank in ranks]
    sizes = {str(rank["rank"]): size_of(paths.folder / rank["log"]) for rank in ranks}
    report["log"] = {rank: size or 0 for rank, size in sizes.items()}


def end_report(paths: RunPaths, ended: Dict[str, Any]) -> Report:
    state = "unsupervised" if ended["end"] == "unsupervised" else "ended"
    report = blank(paths, state, SEQ["ended"], ended["boot_id"])
    fill_started(report, paths, ended)
    for name in ("ended_at_s", "ran_s", "exit", "signal", "failed_rank", "end"):
        report[name] = ended[name]
    for name in ("stop_reason", "exit_before_term", "oom"):
        report[name] = ended[name]
    report["asked_s"] = number_or_none(ended.get("asked_s"))
    report["ranks"] = ended["exits"] or report["ranks"]
    report["cards"] = (facts.read(paths.gate) or {}).get("cards")
    report["head"] = head_of(paths, ended)
    report["alive"] = 0
    return report


def number_or_none(value: Any) -> Optional[float]:
    return value if facts.number(value) else None


def head_of(paths: RunPaths, ended: Dict[str, Any]) -> Optional[str]:
    """The whole log of the first rank here, where it is small enough to travel along."""
    if not ended["ranks"]:
        return None
    log = paths.folder / ended["ranks"][0]["log"]
    size = size_of(log)
    if size is None or size > HEAD_BYTES:
        return None
    return base64.b64encode(read_regular(log, HEAD_BYTES)).decode("ascii")


def unsupervised(paths: RunPaths, claim: Dict[str, Any], boot: str) -> Report:
    """The keeper is gone without a word: seq 4 while something is alive, 5 when nothing is."""
    written = facts.read(paths.ended)  # it may have ended between two looks
    if written is not None:
        return end_report(paths, written)
    same_boot = claim["boot_id"] == boot
    alive = len(tree.of_run(str(paths.folder), 0, recorded(paths))) if same_boot else 0
    started = facts.read(paths.started) or {"started_at_s": None, "ranks": []}
    stop = facts.read(paths.stop) or {}
    if alive == 0:
        end = unsupervised_end(claim, started, stop.get("reason"))
        link_json(paths.ended, end)
        return end_report(paths, facts.read(paths.ended) or end)
    report = blank(paths, "unsupervised", 4, claim["boot_id"])
    fill_started(report, paths, started)
    report["stop_reason"] = stop.get("reason")
    report["alive"] = alive
    return report


def unsupervised_end(
    claim: Dict[str, Any], started: Dict[str, Any], reason: Optional[str]
) -> Dict[str, Any]:
    return {
        "boot_id": claim["boot_id"],
        "started_at_s": started["started_at_s"],
        "ranks": started["ranks"],
        "exits": [],
        "ended_at_s": time.time(),
        "ran_s": None,
        "exit": None,
        "signal": None,
        "failed_rank": None,
        "end": "unsupervised",
        "stop_reason": reason,
        "exit_before_term": False,
        "oom": False,
    }
