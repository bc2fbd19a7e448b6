"""The form for a booking: what was typed, in the viewer's zone, and the order it stands for."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from scheduling import booking_orders
from scheduling.booking_orders import BookingOrder, Change
from scheduling.errors import SchedulingError

from . import zones

NAMES = ("team", "title", "gpus", "nodes", "gpu_model", "start", "end", "on", "cards", "kind")


@dataclass(slots=True)
class BookingForm:
    """Values as typed and what was refused; ``twice``: an hour that happens twice was named."""

    values: dict[str, str]
    zone: ZoneInfo
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    errors: dict[str, str] = field(default_factory=dict)
    refused: str = ""
    twice: bool = False

    def order(self) -> BookingOrder:
        """The order. Raises InvalidOrder with everything that is wrong."""
        return booking_orders.parse(self._sent(NAMES))

    def change(self) -> Change:
        """The change of a booking that the form stands for."""
        return booking_orders.parse_change(self._sent(("title", "gpus", "start", "end")))

    def refuse(self, why: SchedulingError) -> None:
        """Take a refusal to its fields; the sentence stands above the form."""
        self.errors |= why.fields
        self.refused = f"{why.cause} {why.next_step}"

    def _sent(self, names: Iterable[str]) -> dict[str, Any]:
        sent: dict[str, Any] = {n: text for n in names if (text := self.values.get(n, "").strip())}
        bad: dict[str, str] = {}
        for name in ("start", "end"):
            if name in sent:
                try:
                    sent[name] = zones.from_wall(sent[name], self.zone, self.values.get("fold", ""))
                except ValueError as why:
                    bad[name] = str(why)
                    self.twice = self.twice or "twice" in str(why)
        if bad:
            raise booking_orders.invalid(bad)
        if sent.get("on") or sent.get("cards"):
            sent.pop("nodes", None)
        if sent.get("cards"):
            sent.pop("gpus", None)
        return sent


def blank(zone: ZoneInfo, now: datetime, team: str, given: Mapping[str, str]) -> BookingForm:
    """A form for the next full hour, with what the address gives filled in."""
    start = (now + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    values = {
        "team": team,
        "gpus": "1",
        "nodes": "1",
        "start": zones.to_wall(start, zone),
        "end": zones.to_wall(start + timedelta(hours=1), zone),
    }
    return BookingForm(values | {n: given[n] for n in NAMES if given.get(n)}, zone)
