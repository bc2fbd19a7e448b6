"""Live bookings as the engine sees them: which cards are promised, and from when to when.

Reads only. The rows are written by ``services.reservations`` and by the clocks of ``slots``.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from .engine.world import Booking
from .models import Reservation, ReservationCard

_KINDS = {Reservation.Kind.USE: "reservation", Reservation.Kind.MAINTENANCE: "maintenance"}


@dataclass(frozen=True, slots=True)
class Booked:
    """One card of a live booking; ``team`` is None for maintenance."""

    user: int
    gpu: int
    model: str
    reservation: int
    team: int | None
    kind: str
    start_us: int
    end_us: int


def us(at: datetime) -> int:
    """Microseconds since the epoch."""
    return int(at.timestamp() * 1_000_000)


def live(since: datetime, until: datetime | None = None) -> list[Booked]:
    """The cards of live bookings that touch [since, until). One query."""
    rows = ReservationCard.objects.filter(live=True, reservation__end_at__gt=since)
    if until is not None:
        rows = rows.filter(reservation__start_at__lt=until)
    fields = (
        "reservation__user_id", "card__gpu_id", "card__gpu__model", "reservation_id",
        "reservation__team_id", "reservation__kind", "reservation__start_at",
        "reservation__end_at",
    )  # fmt: skip
    found = rows.order_by("reservation_id").values_list(*fields)
    return [
        Booked(user, gpu, model, pk, team, kind, us(start), us(end))
        for user, gpu, model, pk, team, kind, start, end in found
    ]


def for_engine(booked: Iterable[Booked]) -> tuple[Booking, ...]:
    """Bookings as promises on the time line."""
    cards: dict[int, list[Booked]] = defaultdict(list)
    for one in booked:
        cards[one.reservation].append(one)
    return tuple(
        Booking(
            pk,
            tuple(sorted(one.gpu for one in mine)),
            mine[0].start_us,
            mine[0].end_us,
            _KINDS[Reservation.Kind(mine[0].kind)],
            team=mine[0].team or 0,
            user=str(mine[0].user),
        )
        for pk, mine in sorted(cards.items())
    )


@dataclass(frozen=True, slots=True)
class Slot:
    """When a reservation's jobs may hold its cards, seen from ``now_us``."""

    id: int
    start_us: int
    end_us: int
    now_us: int


def slots(booked: Iterable[Booked], now: datetime) -> dict[int, Slot]:
    """The slots of live bookings for use, by number."""
    at = us(now)
    return {
        one.reservation: Slot(one.reservation, one.start_us, one.end_us, at)
        for one in booked
        if one.kind == Reservation.Kind.USE
    }


def charged(booked: Iterable[Booked], now: datetime) -> dict[tuple[int, str, int, int], int]:
    """Milli-GPU held by bookings whose slot runs now, by (team, model, user, reservation)."""
    total: dict[tuple[int, str, int, int], int] = defaultdict(int)
    at = us(now)
    for one in booked:
        if one.team is not None and one.start_us <= at < one.end_us:
            total[one.team, one.model, one.user, one.reservation] += 1000
    return total
