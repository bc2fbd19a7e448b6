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
    return [
        Booked(gpu, model, pk, team, kind, us(start), us(end))
        for gpu, model, pk, team, kind, start, end in rows.order_by("reservation_id").values_list(
            "card__gpu_id", "card__gpu__model", "reservation_id", "reservation__team_id",
            "reservation__kind", "reservation__start_at", "reservation__end_at",
        )
    ]  # fmt: skip


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
        )
        for pk, mine in sorted(cards.items())
    )


def charged(booked: Iterable[Booked], now: datetime) -> dict[tuple[int, str], int]:
    """Milli-GPU that teams hold by bookings whose slot runs now, by team and model."""
    total: dict[tuple[int, str], int] = defaultdict(int)
    at = us(now)
    for one in booked:
        if one.team is not None and one.start_us <= at < one.end_us:
            total[one.team, one.model] += 1000
    return total
