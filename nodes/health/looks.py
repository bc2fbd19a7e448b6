"""What a rule may look at: one card as it was seen now, and what changed since it was last seen.

Counters are compared within one boot of the machine only: a counter that fell, or another boot
id, is a new beginning and no change. Missing facts are None: no rule fires on what was not read.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

COUNTERS = ("ecc_uncorrected", "pcie_replays")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d{1,4}),? ?(.*)")
_FALLEN = re.compile(
    r"GPU (?:at )?(?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]*[0-9A-Fa-f]).*fallen off the bus"
)
FALLEN_OFF = 79
MOST_EVENTS = 64


@dataclass(frozen=True, slots=True)
class Xid:
    """A driver error of one card: its number, and the words of the kernel's log."""

    number: int
    words: str


@dataclass(frozen=True, slots=True)
class Look:
    """One card at one probe. ``gone``: the driver answers and does not have it any more."""

    facts: Mapping[str, Any]
    deltas: Mapping[str, int] = field(default_factory=dict)
    xids: tuple[Xid, ...] = ()
    gone: bool = False

    def number(self, name: str) -> int | None:
        """A fact as a whole number; None if it was not read or is none."""
        value = self.facts.get(name)
        return int(value) if isinstance(value, int | float) else None


def deltas(facts: Mapping[str, Any], before: Mapping[str, Any], same_boot: bool) -> dict[str, int]:
    """How much each counter grew since ``before``; nothing where there is no telling."""
    grown = {}
    for name in COUNTERS:
        now, was = facts.get(name), before.get(name)
        if same_boot and isinstance(now, int) and isinstance(was, int) and now > was:
            grown[name] = now - was
    return grown


def xids(lines: Iterable[str], bus_id: str) -> tuple[Xid, ...]:
    """The driver errors of the card at ``bus_id`` in lines of the kernel's log."""
    found = []
    for line in lines:
        known = _XID.search(line)
        fallen = None if known else _FALLEN.search(line)
        if known and same_slot(known[1], bus_id):
            found.append(Xid(int(known[2]), line[:200]))
        elif fallen and same_slot(fallen[1], bus_id):
            found.append(Xid(FALLEN_OFF, line[:200]))
    return tuple(found[-MOST_EVENTS:])


def same_slot(one: str, other: str) -> bool:
    """Is it the same domain, bus and device? Domains have four digits or eight; functions vary."""
    return bool(one) and _slot(one) == _slot(other)


def _slot(bus_id: str) -> tuple[str, ...]:
    parts = bus_id.lower().partition(".")[0].split(":")
    return tuple(part.lstrip("0") or "0" for part in parts)
