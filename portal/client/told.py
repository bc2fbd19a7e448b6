"""Answers about waiting as text: why, when, who is ahead, what would help."""

from collections.abc import Iterator
from typing import Any

from .client import Json
from .show import clean, when

_UNSURE = {
    "unknown": "nobody can tell by when: no time limit says when what it needs comes free",
    "quota": "by when depends on the other jobs of its team",
    "dependency": "by when depends on the jobs it follows",
    "never": "never",
}
_WHY = {"priority": "higher priority", "earlier": "submitted earlier", "order": "its team's turn"}
Line = tuple[str, str]


def explanation(found: Json) -> str:
    """Why a job is where it is."""
    place = f", number {found['position']} in its queue" if found["position"] else ""
    first = [("Job", f"{found['id']} is {found['state']}{place}")]
    return _text([*first, *_waiting(found), *[("Next", found["next_step"])]])


def preview(found: Json) -> str:
    """What an order would meet now."""
    cost = found["cost"]
    most = f"{cost['gpu_hours']:g} GPU-hours"
    if found["starts_now"]:
        places = ", ".join(f"{place['node']} ({place['gpus']})" for place in found["nodes"])
        return _text([("Starts", f"now, on {places}"), ("At most", most), *_advice(found)])
    first = "no state of the machines could hold it" if not found["fits"] else "it would wait"
    return _text([("Submit", first), *_waiting(found), ("At most", most), *_advice(found)])


def _advice(found: Json) -> Iterator[Line]:
    """What making way would cost it, and a window that fits."""
    for one in found.get("advice", ()):
        yield "Advice", one["sentence"]


def starts(found: Json) -> str:
    """When a waiting job is thought to start; empty when nothing was foretold."""
    first, last = found.get("start_from"), found.get("start_by")
    if last:
        between = f"between {when(first)} and {when(last)}"
        return f"{between if first != last else when(last)}, as the queue stands"
    unsure = _UNSURE.get(found.get("start_unsure") or "", "")
    return "; ".join(
        text for text in (f"not before {when(first)}" if first else "", unsure) if text
    )


def _waiting(found: Json) -> Iterator[Line]:
    for reason in found["reasons"]:
        yield "Waits", reason["sentence"]
    if found["starts_now"]:
        yield "Starts", "in the next cycle"
    elif words := starts(found):
        yield "Starts", words
    for rival in found["ahead"]["jobs"]:
        yield (
            "Ahead",
            f"job {rival['id']} of {rival['team']}, {_WHY.get(rival['why'], rival['why'])}",
        )
    more = found["ahead"]["count"] - len(found["ahead"]["jobs"])
    if more > 0:
        yield "Ahead", f"and {more} more"
    for way in found["ways"]:
        yield "Or now", f"with {way['field']} {_value(way)}"


def _value(way: Json) -> Any:
    return f"{way['value'] // 60} min" if way["field"] == "time_limit" else way["value"]


def _text(lines: list[Line]) -> str:
    return "\n".join(f"{label + ':':<11}{clean(text)}" for label, text in lines if text)
