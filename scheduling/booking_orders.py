"""A booking as sent: from named fields to a typed order, or a refusal that names every bad field.

Pure. Page, API and command all come through ``parse`` and ``parse_change``. Times carry a zone:
nobody guesses whose nine o'clock is meant. Whether cards are free is the service's question.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from .errors import InvalidOrder
from .order_fields import duration_s

ORDER = (
    "team", "title", "kind", "gpus", "nodes", "gpu_model", "gpu_memory_gib", "on", "cards",
    "start", "end", "duration",
)  # fmt: skip
CHANGE = ("title", "gpus", "start", "end", "duration")
KINDS = ("use", "maintenance")
NAMES_MOST, TITLE_MOST = 4096, 120
_YEARS = (2000, 9000)


@dataclass(frozen=True, slots=True)
class BookingOrder:
    """What is asked. ``start`` None: now. ``gpus`` 0: all of the nodes or cards named."""

    team: str
    start: datetime | None
    end: datetime | None
    length: timedelta | None
    title: str = ""
    kind: str = "use"
    gpus: int = 0
    nodes: int = 0
    gpu_model: str = ""
    gpu_memory_mib: int = 0
    on: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What of a booking is to be different; None leaves it."""

    title: str | None = None
    gpus: int | None = None
    start: datetime | None = None
    end: datetime | None = None
    length: timedelta | None = None


def parse(fields: Mapping[str, Any], *, for_team: bool = True) -> BookingOrder:
    """Read an order; without ``for_team`` it only asks about cards and needs no team.

    Raises InvalidOrder whose ``fields`` has one sentence for each bad field.
    """
    values, bad = _read(fields, ORDER)
    if not bad and "end" not in values and "length" not in values:
        bad["end"] = "Say when it ends: end, or duration such as 4h."
    if not bad and not (values.get("gpus") or values.get("on") or values.get("cards")):
        bad["gpus"] = "Say what to book: a number of gpus, nodes by name (on), or cards by UUID."
    if not bad and values.get("cards") and (values.get("gpus") or values.get("on")):
        bad["cards"] = "Cards by UUID stand alone; leave gpus and on out."
    if not bad and for_team and values.get("kind") != "maintenance" and not values.get("team"):
        bad["team"] = "Name the team that the booking is charged to."
    if bad:
        raise invalid(bad)
    nodes = values.pop("nodes", 1) if values.get("gpus") else 0
    if nodes and values["gpus"] % nodes:
        text = f"{values['gpus']} GPUs cannot be shared equally by {nodes} nodes."
        raise invalid({"nodes": text})
    values.pop("nodes", None)
    return BookingOrder(
        **{"team": "", "start": None, "end": None, "length": None} | values, nodes=nodes
    )


def parse_change(fields: Mapping[str, Any]) -> Change:
    """Read a change of a booking; refuses what cannot be changed by name."""
    values, bad = _read(fields, CHANGE)
    if bad:
        raise invalid(bad)
    return Change(**values)


def moment(text: str) -> datetime:
    """An ISO time with its zone, in UTC. Raises ValueError with a sentence."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text[:40]!r} is not a time. Write it as 2026-12-03T09:00+01:00, with the zone."
        ) from None
    if at.tzinfo is None:
        raise ValueError(f"{text[:40]} has no time zone. Add it, as in 2026-12-03T09:00+01:00.")
    if not _YEARS[0] <= at.year <= _YEARS[1]:
        raise ValueError(f"The year {at.year} is outside {_YEARS[0]} to {_YEARS[1]}.")
    return at.astimezone(UTC)


def invalid(bad: Mapping[str, str]) -> InvalidOrder:
    """The refusal of an order that is not one."""
    first = next(iter(bad.values()))
    more = f" {len(bad) - 1} more fields are wrong too." if len(bad) > 1 else ""
    return InvalidOrder(first + more, next_step="Correct it and send it again.", fields=bad)


def _read(
    fields: Mapping[str, Any], known: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    bad: dict[str, str] = {}
    for name, sent in fields.items():
        if name not in known:
            bad[name] = f"{name[:80]!r} cannot be set here. Valid: {', '.join(known)}."
        elif sent is not None and sent != "":
            try:
                values.update(_one(name, sent))
            except ValueError as why:
                bad[name] = str(why)
    if "end" in values and "length" in values:
        bad["duration"] = "Give end or duration, not both."
    return values, bad


def _one(name: str, sent: Any) -> dict[str, Any]:
    if name in ("start", "end"):
        if name == "start" and sent == "now":
            return {}
        return {name: moment(_text(name, sent, 64))}
    if name == "duration":
        return {"length": timedelta(seconds=duration_s(sent))}
    if name in ("on", "cards"):
        return {name: _names(name, sent)}
    if name == "gpu_memory_gib":
        return {"gpu_memory_mib": _count(name, sent, 0, 10_000) * 1024}
    if name in ("gpus", "nodes"):
        return {name: _count(name, sent, 1, 100_000)}
    if name == "kind" and sent not in KINDS:
        raise ValueError(f"kind is {' or '.join(KINDS)}.")
    return {name: _text(name, sent, TITLE_MOST)}


def _text(name: str, sent: Any, most: int) -> str:
    if not isinstance(sent, str):
        raise ValueError(f"{name} is a text.")
    if len(sent) > most:
        raise ValueError(f"{name} has {len(sent)} characters; {most} are allowed.")
    if not sent.isprintable():
        raise ValueError(f"{name} has a line break or another character that cannot be printed.")
    return sent


def _count(name: str, sent: Any, least: int, most: int) -> int:
    if isinstance(sent, str) and sent.isascii() and sent.isdigit() and len(sent) < 10:
        sent = int(sent)
    if not isinstance(sent, int) or isinstance(sent, bool) or not least <= sent <= most:
        raise ValueError(f"{name} is a whole number from {least} to {most}.")
    return sent


def _names(name: str, sent: Any) -> tuple[str, ...]:
    if isinstance(sent, str):
        sent = sent.replace(",", " ").split()
    if not isinstance(sent, list) or len(sent) > NAMES_MOST:
        raise ValueError(f"{name} is a list of at most {NAMES_MOST} names.")
    return tuple(dict.fromkeys(_text(name, one, 96) for one in sent))
