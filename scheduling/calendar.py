"""Bookings for those who look: one's own as wholes, everybody's as blocks on nodes. Reads only.

A booking that is not the viewer's to see is not found; that its cards are busy is no secret.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Prefetch, Q, QuerySet

from .errors import NotFound
from .models import Reservation, ReservationCard
from .queries import Viewer

MOST = 2000


@dataclass(frozen=True, slots=True)
class Block:
    """What a booking has of one node; ``gpus`` are indexes there. ``team`` None: maintenance."""

    reservation: int
    kind: str
    live: bool
    team: int | None
    user: int
    title: str
    start: datetime
    end: datetime
    node: str
    gpus: list[int]


def reservations(
    viewer: Viewer,
    since: datetime,
    until: datetime,
    *,
    mine: bool = False,
    live: bool = False,
    most: int = MOST,
) -> list[Reservation]:
    """The viewer's reservations that touch [since, until), by start. Three queries."""
    found = _seen(viewer).filter(end_at__gt=since, start_at__lt=until)
    if mine:
        found = found.filter(user_id=viewer.user_id)
    if live:
        found = found.filter(state__in=Reservation.LIVE)
    return list(found.order_by("start_at", "pk")[:most])


def reservation(viewer: Viewer, pk: int) -> Reservation:
    """One reservation with its cards. Raises NotFound for a foreign one too."""
    found = _seen(viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound(f"There is no reservation {pk}.", next_step="See yours at /reservations/.")
    return found


def _seen(viewer: Viewer) -> QuerySet[Reservation]:
    cards = ReservationCard.objects.select_related("card__gpu__node").order_by(
        "card__gpu__node__name", "card__gpu__index"
    )
    rows = Reservation.objects.select_related("team", "user").prefetch_related(
        Prefetch("cards", queryset=cards)
    )
    if viewer.team_ids is None:
        return rows
    return rows.filter(Q(team_id__in=viewer.team_ids) | Q(user_id=viewer.user_id))


def blocks(since: datetime, until: datetime, nodes: Iterable[str] = ()) -> list[Block]:
    """Everybody's bookings in [since, until), a row for each node; none cancelled. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_BLOCKS, [since, until, list(nodes), list(nodes)])
        return [Block(*row) for row in cursor.fetchall()]


_BLOCKS = """
SELECT r.id, r.kind, r.state IN ('booked', 'active'), r.team_id, r.user_id, r.title,
       r.start_at, r.end_at, n.name, array_agg(g.index ORDER BY g.index)
FROM scheduling_reservation r
JOIN scheduling_reservationcard c ON c.reservation_id = r.id
JOIN scheduling_card k ON k.id = c.card_id
JOIN nodes_gpu g ON g.id = k.gpu_id
JOIN nodes_node n ON n.id = g.node_id
WHERE r.end_at > %s AND r.start_at < %s AND r.state <> 'cancelled'
  AND (%s = '{}'::text[] OR n.name = ANY(%s))
GROUP BY r.id, n.id ORDER BY r.start_at, r.id, n.name
"""


def extendable_until(rows: Iterable[Reservation]) -> dict[int, datetime]:
    """When the next booking of any of its cards begins, for those that one follows. One query."""
    ids = [row.pk for row in rows if row.live]
    if not ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_FOLLOWS, [ids])
        return dict(cursor.fetchall())


_FOLLOWS = """
SELECT mine.reservation_id, min(lower(other.during))
FROM scheduling_reservationcard mine
JOIN scheduling_reservationcard other
  ON other.card_id = mine.card_id AND other.live AND lower(other.during) >= upper(mine.during)
WHERE mine.live AND mine.reservation_id = ANY(%s) GROUP BY mine.reservation_id
"""
