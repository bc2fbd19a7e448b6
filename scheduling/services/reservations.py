"""What a person does to a booking: make it, change it, give it back, cancel it; always as a whole.

One path for all: under the ledger lock the cards are chosen and held against leases, bookings, the
team's rules and its limit. Who may is the portal's question; a refusal says what stands in the way
and the next slot that would do.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from nodes import hints
from nodes.models import Gpu, Node
from scheduling import audit, bookable, booking_rules, ledger, slot_choice
from scheduling.actors import Actor
from scheduling.booking_orders import BookingOrder, Change, invalid
from scheduling.booking_rules import utc
from scheduling.engine.booking import Bookable
from scheduling.errors import WrongState
from scheduling.models import BookingRule, Reservation, ReservationCard, Team

STALE_S = 60  # a start that just passed while the form was filled in means now


def create(actor: Actor, order: BookingOrder, *, user_id: int, at: datetime) -> Reservation:
    """Book cards. Raises InvalidOrder, AgainstRule, NeverFits, or Taken with the next slot."""
    row = draft(order, user_id=user_id, at=at)
    uuids = _named(order)
    cards = slot_choice.candidates(row, uuids)
    _weigh(actor, "book", row, cards, at=at)
    return row


def change(actor: Actor, found: Reservation, wish: Change, *, at: datetime) -> Reservation:
    """Make a booking what ``wish`` says, as if it were booked anew, or leave it as it is.

    Its own cards and jobs are not in its way. Once it runs, its start and its cards stay.
    """
    row = _live(found, at)
    began = row.start_at <= at
    row.start_at, row.end_at = _times(row, wish, at)
    row.title = row.title if wish.title is None else wish.title
    if began:
        if wish.gpus not in (None, row.gpus):
            raise _runs(row)
        _weigh(actor, "change booking", row, bookable.own_cards(row), at=at, began=True)
        return row
    if wish.gpus is not None and wish.gpus != row.gpus:
        if not row.nodes or wish.gpus % row.nodes:
            raise invalid({"gpus": f"{wish.gpus} cards cannot be shared by what was booked."})
        row.gpus = wish.gpus
    mine = row.cards.filter(live=True).values_list("card__gpu__uuid", flat=True)
    cards = slot_choice.candidates(row, [] if row.nodes or row.on_nodes else list(mine))
    _weigh(actor, "change booking", row, cards, at=at)
    return row


def cancel(actor: Actor, found: Reservation, *, at: datetime, reason: str = "") -> Reservation:
    """End a booking as a whole: before its start it is cancelled, after it given back."""
    state = Reservation.State.GIVEN_BACK if found.start_at <= at else Reservation.State.CANCELLED
    with ledger.locked():
        row = _live(found, at)
        close(actor, row, state, at=at, reason=reason)
    return row


def close(
    actor: Actor, row: Reservation, state: Reservation.State, *, at: datetime, reason: str = ""
) -> None:
    """End a live booking's hold on its cards. The ledger lock is the caller's.

    Jobs that wait for the slot are jobs of the ordinary queue from then on.
    """
    ReservationCard.objects.filter(reservation=row, live=True).update(live=False)
    row.state, row.closed_at = state, at
    if row.start_at < at < row.end_at:
        row.end_at = at
    row.save(update_fields=["state", "closed_at", "end_at"])
    audit.note(
        actor, state.replace("_", " "), f"reservation {row.pk}", at=at, team_id=row.team_id,
        reason=reason, gpus=row.gpus,
    )  # fmt: skip
    hints.cycle_soon(f"reservation {row.pk} {state}")


def save_rule(actor: Actor, rule: BookingRule, *, at: datetime) -> None:
    """Set what a team, or everybody, may book. What is booked already stays."""
    with ledger.locked():
        rule.save()
        audit.note(
            actor, "set booking rule", str(rule), at=at, team_id=rule.team_id,
            ahead_s=rule.ahead_s, length_s=rule.length_s, open_at_once=rule.open_at_once,
            gpu_hours_a_week=rule.gpu_hours_a_week,
        )  # fmt: skip


def remove_rule(actor: Actor, rule: BookingRule, *, at: datetime) -> None:
    """Drop a rule: the next one up the tree counts."""
    with ledger.locked():
        audit.note(actor, "remove booking rule", str(rule), at=at, team_id=rule.team_id)
        rule.delete()


def draft(order: BookingOrder, *, user_id: int, at: datetime) -> Reservation:
    """The unsaved booking that an order stands for. Raises InvalidOrder naming the field."""
    team = Team.objects.filter(name=order.team).first() if order.team else None
    if order.team and (team is None or team.children.exists()):
        text = f"There is no team {order.team!r} that cards can be booked for."
        raise invalid({"team": text})
    start = _start(order.start or at, at)
    end = order.end if order.end is not None else start + (order.length or timedelta(hours=1))
    _check_order(start, end, at)
    return Reservation(
        team=team, user_id=user_id, title=order.title, kind=order.kind, gpus=order.gpus,
        nodes=order.nodes, gpu_model=order.gpu_model, gpu_memory_mib=order.gpu_memory_mib,
        on_nodes=list(order.on), start_at=start, end_at=end, made_at=at,
    )  # fmt: skip


def candidates(
    order: BookingOrder, *, user_id: int, at: datetime
) -> tuple[Reservation, list[Bookable]]:
    """An order as a draft with the cards that would do: what ``next_free`` asks about."""
    row = draft(order, user_id=user_id, at=at)
    return row, slot_choice.candidates(row, _named(order))


def _weigh(
    actor: Actor, verb: str, row: Reservation, cards: Sequence[Bookable], *, at: datetime,
    began: bool = False,
) -> None:  # fmt: skip
    rule = booking_rules.rule_of(row.team) if row.team else None
    try:
        with ledger.locked():
            if row.pk:
                _still_there(row)
            if rule is not None:
                booking_rules.check(row, rule, at)
            chosen = slot_choice.chosen(row, cards, at, began)
            _write(row, chosen, at=at)
            audit.note(
                actor, verb, f"reservation {row.pk}", at=at, team_id=row.team_id, gpus=row.gpus,
                start=row.start_at.isoformat(), end=row.end_at.isoformat(),
            )  # fmt: skip
            hints.cycle_soon(f"reservation {row.pk}")
    except slot_choice.NoRoom as why:
        raise slot_choice.taken(row, cards, why.cause, at) from None


def _write(row: Reservation, gpu_ids: Sequence[int], *, at: datetime) -> None:
    during = DateTimeTZRange(row.start_at, row.end_at, "[)")
    if row.pk:
        row.version += 1
        row.save()
        kept = ReservationCard.objects.filter(reservation=row, card__gpu__in=gpu_ids)
        ReservationCard.objects.filter(reservation=row).exclude(card__gpu__in=gpu_ids).delete()
        kept.update(during=during, live=True)
        gpu_ids = sorted(set(gpu_ids) - set(kept.values_list("card__gpu_id", flat=True)))
    else:
        row.save()
    with connection.cursor() as cursor:
        cursor.execute(_CARDS, [row.pk, row.start_at, row.end_at, list(gpu_ids)])


_CARDS = """
INSERT INTO scheduling_reservationcard (reservation_id, card_id, during, live)
SELECT %s, id, tstzrange(%s, %s, '[)'), true FROM scheduling_card WHERE gpu_id = ANY(%s)
"""


def _named(order: BookingOrder) -> list[str]:
    """The cards named by UUID. Raises InvalidOrder for nodes or cards that do not exist."""
    known = set(
        Node.objects.filter(name__in=order.on, pool_node__isnull=False).values_list(
            "name", flat=True
        )
    )
    missing = [name for name in order.on if name not in known]
    if missing:
        raise invalid({"on": f"There is no node {missing[0]!r}. See /nodes/."})
    uuids = set(Gpu.objects.filter(uuid__in=order.cards).values_list("uuid", flat=True))
    missing = [uuid for uuid in order.cards if uuid not in uuids]
    if missing:
        raise invalid({"cards": f"There is no card {missing[0]!r}. See /nodes/."})
    return list(order.cards)


def _times(row: Reservation, wish: Change, at: datetime) -> tuple[datetime, datetime]:
    """The slot as it is to be. A new start alone moves it; a length counts from its start."""
    start, end = wish.start or row.start_at, wish.end or row.end_at
    if wish.length is not None:
        end = start + wish.length
    elif wish.start is not None and wish.end is None:
        end = start + (row.end_at - row.start_at)
    if row.start_at > at:
        start = _start(start, at)
    elif start != row.start_at:
        raise _runs(row)
    _check_order(start, end, at)
    return start, end


def _runs(row: Reservation) -> WrongState:
    return WrongState(
        f"Reservation {row.pk} runs since {utc(row.start_at)}; its start and its cards stay.",
        next_step="Change its end, or give it back and book anew.",
    )


def _start(start: datetime, now: datetime) -> datetime:
    if start >= now:
        return start
    if now - start <= timedelta(seconds=STALE_S):
        return now
    ago = booking_rules.span(now - start)
    raise invalid({"start": f"The start, {utc(start)}, was {ago} ago. Book from now or later."})


def _check_order(start: datetime, end: datetime, now: datetime) -> None:
    if end <= start:
        what = "is its start" if end == start else f"is before its start, {utc(start)}"
        raise invalid({"end": f"The end, {utc(end)}, {what}. A slot ends after it starts."})
    if end <= now:
        raise invalid({"end": f"The end, {utc(end)}, is past. Give the reservation back instead."})


def _live(found: Reservation, at: datetime) -> Reservation:
    row = Reservation.objects.select_related("team").get(pk=found.pk)
    if not row.live or row.end_at <= at:
        over = row.end_at if row.live else row.closed_at or at
        raise WrongState(
            f"Reservation {row.pk} is over since {utc(over)}.", next_step="Book a new one."
        )
    return row


def _still_there(row: Reservation) -> None:
    """Somebody may have changed it since it was read; the first one wins."""
    same = Reservation.objects.filter(pk=row.pk, version=row.version, state__in=Reservation.LIVE)
    if not same.exists():
        raise WrongState(
            f"Reservation {row.pk} was changed by somebody else a moment ago.",
            next_step="Look at it again, then change it.",
        )
