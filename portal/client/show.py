"""Answers as text for a terminal. Control characters of others are never sent to it raw."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from .client import Json

_CUT = 40


def say(text: str) -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """One line for a person, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def clean(text: Any) -> str:
    """On one line, without anything that a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in str(text))


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as they need to be; None is a dash."""
    lines = [[clean("-" if cell is None else cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [list(head), *lines]
    )


def jobs(found: Iterable[Json]) -> str:
    """Jobs, one a line."""
    head = ("ID", "STATE", "NAME", "TEAM", "USER", "GPUS", "SUBMITTED", "WHERE OR WHY")
    return table(
        head,
        (
            (
                job["id"],
                job["state"],
                job["name"][:_CUT],
                job["team"],
                job["user"],
                job["gpus"],
                when(job["submitted_at"]),
                _where(job),
            )
            for job in found
        ),
    )


def job(found: Json) -> str:
    """One job, a fact a line."""
    facts: list[tuple[str, Any]] = [
        ("Job", f"{found['id']} {found['name']}".strip()),
        ("State", found["state"] + (f" ({_ending(found)})" if found["done"] else "")),
        ("Team", f"{found['team']}, submitted by {found['user']}, priority {found['priority']}"),
        ("Asks for", _asks(found)),
        ("Submitted", when(found["submitted_at"])),
        ("Started", when(found["started_at"])),
        ("Ended", when(found["ended_at"])),
        ("Command", _first_line(found["command"])),
        *(("On", _on(place)) for place in found["placement"]),
        *(("Waits", reason["sentence"]) for reason in found["reasons"]),
        ("Why", _note(found)),
    ]
    if found["next_step"]:
        facts.append(("Next", found["next_step"]))
    shown = ((label, text) for label, text in facts if text)
    return "\n".join(f"{label + ':':<11}{clean(text)}" for label, text in shown)


def nodes(found: Iterable[Json]) -> str:
    """Machines, one a line."""
    head = ("NODE", "POOL", "STATE", "HEALTH", "FREE", "GPUS", "MODEL", "CPUS", "MEMORY GiB")
    return table(head, (_node(node) for node in found))


def teams(found: Iterable[Json]) -> str:
    """Teams, one a line."""
    rows = ((t["name"], t["role"], t["held_gpus"], t["limit_gpus"]) for t in found)
    return table(("TEAM", "ROLE", "GPUS HELD", "LIMIT"), rows)


def tokens(found: Iterable[Json]) -> str:
    """Tokens, one a line."""
    rows = ((t["prefix"], t["name"][:_CUT], when(t["created"]), when(t["expiry"])) for t in found)
    return table(("PREFIX", "NAME", "CREATED", "EXPIRES"), rows)


def when(text: str | None) -> str:
    """A time of the API in the zone of this machine; empty for none."""
    if not text:
        return ""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _node(node: Json) -> tuple[Any, ...]:
    free = sum(gpu["use"] == "free" for gpu in node["gpus"])
    models = ", ".join(sorted({gpu["model"] for gpu in node["gpus"]}))
    state = node["liveness"] if node["accepts_work"] else f"{node['liveness']}, takes no work"
    memory_gib = node["memory_mib"] // 1024
    facts = (node["name"], node["pool"], state, node["health"], free, len(node["gpus"]))
    return (*facts, models, node["cpus"], memory_gib)


def _where(job: Json) -> str:
    if job["placement"]:
        return ", ".join(place["node"] for place in job["placement"])
    return job["reasons"][0]["sentence"] if job["reasons"] else ""


def _on(place: Json) -> str:
    cards = ", ".join(f"{gpu['index']} ({gpu['model']})" for gpu in place["gpus"])
    return f"{place['node']}, GPU {cards}" if cards else str(place["node"])


def _asks(job: Json) -> str:
    model = f" {job['gpu_model']}" if job["gpu_model"] else ""
    spread = f" on {job['nodes']} nodes" if job["nodes"] > 1 else ""
    return f"{job['gpus']}{model} GPU{'s' if job['gpus'] > 1 else ''}{spread}"


def _ending(job: Json) -> str:
    if job["exit_signal"] is not None:
        return f"signal {job['exit_signal']}"
    if job["exit_code"] is not None:
        return f"exit code {job['exit_code']}"
    return "how is unknown" if job["started_at"] else "never ran"


def _note(job: Json) -> str:
    """What the last attempt says of an end that was not the job's own success."""
    attempts = job["attempts"] if job["state"] != "COMPLETED" else []
    if not attempts:
        return ""
    last = max(attempts, key=lambda one: int(one["number"]))
    return str(last["note"] or last.get("stop_note", ""))


def _first_line(command: str) -> str:
    first, *more = command.strip().splitlines() or [""]
    return f"{first} …" if more else first
