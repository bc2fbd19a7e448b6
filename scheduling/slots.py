"""The clocks of reservations: what is due on a booking now, told from its rows alone.

Beat calls ``tend`` every two seconds. Each step may be lost, repeated or late: it looks at what
stands in the rows and does what is left to do. It stops jobs only by asking (``stopping``), and
ends bookings only through their service.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from nodes import clock, hints
from nodes.models import WORKING, Node

from . import audit, bookable, ledger
from .actors import CLOCK
from .booking_rules import utc
from .bookings import us
from .engine import booking
from .engine.booking import Bookable
from .models import Card, Job, Lease, Reservation, ReservationCard
from .occupancy import HANDOVER_S
from .services.reservations import close
from .states import LIVE, StopReason
from .stopping import ask_to_stop
from .transitions import locked

log = logging.getLogger(__name__)
S = Reservation.State
# What becomes of a card that a booking cannot use any more.
LOST = (
    Q(card__gpu__present=False)
    | ~Q(card__gpu__health__in=WORKING)
    | Q(card__quarantined_at__isnull=False)
    | Q(card__gpu__node__liveness=Node.Liveness.LOST)
    | Q(card__gpu__node__pool_node__isnull=True)
)  # fmt: skip


def tend() -> None:
    """Do what is due. Cost: a handful of queries over live bookings."""
    now = clock.now()
    clear_cards(now)
    begin(now)
    note_use(now)
    stop_at_the_end(now)
    end(now)
    give_back_unused(now)
    swap_lost_cards(now)


def clear_cards(now: datetime) -> int:
    """Ask others' jobs on booked cards to leave, so that the cards are clean at the start.

    Preemptible ones when their window is all that is left, and those of a slot that was given back,
    which had the cards for no longer; at the start whatever is there.
    """
    rows = ReservationCard.objects.filter(
        live=True, reservation__end_at__gt=now, card__leases__state=Lease.State.HELD
    ).exclude(card__leases__part__attempt__job__reservation=F("reservation"))
    job = "card__leases__part__attempt__job__"
    asked = 0
    for pk, grace_s, preemptible, named, slot, start in rows.values_list(
        f"{job}id", f"{job}grace_s", f"{job}priority_class__preemptible", f"{job}reservation_id",
        "reservation_id", "reservation__start_at",
    ).distinct():  # fmt: skip
        window = timedelta(seconds=grace_s + HANDOVER_S)
        due = start - window if preemptible or named else start
        if due <= now:
            note = f"Its cards are reserved from {utc(start)} (reservation {slot})."
            asked += _ask(pk, note, now)
    return asked


def begin(now: datetime) -> None:
    """Bookings whose slot has come are active; their jobs may start."""
    due = Reservation.objects.filter(state=S.BOOKED, start_at__lte=now)
    if due.update(state=S.ACTIVE):
        hints.cycle_soon("a reservation begins")


def note_use(now: datetime) -> None:
    """A slot is in use once a job of it has cards, or somebody works on them by hand."""
    idle = Reservation.objects.filter(state=S.ACTIVE, used_at__isnull=True)
    by_job = Q(jobs__attempts__parts__leases__isnull=False)
    by_hand = Q(cards__live=True) & ~Q(cards__card__gpu__foreign_use="")
    used = idle.filter(by_job | by_hand).values_list("pk", flat=True).distinct()
    Reservation.objects.filter(pk__in=list(used)).update(used_at=now)


def stop_at_the_end(now: datetime) -> int:
    """Ask a slot's jobs to save and leave, so that the cards are clean at its end."""
    jobs = Job.objects.filter(state__in=LIVE, reservation__state__in=Reservation.LIVE)
    asked = 0
    for pk, grace_s, slot, until in jobs.values_list(
        "id", "grace_s", "reservation_id", "reservation__end_at"
    ):
        if until - timedelta(seconds=grace_s + HANDOVER_S) <= now:
            asked += _ask(pk, f"Its slot, reservation {slot}, ends at {utc(until)}.", now)
    return asked


def end(now: datetime) -> None:
    """Slots that are over let go of their cards."""
    _close(Reservation.objects.filter(state__in=Reservation.LIVE, end_at__lte=now), S.ENDED, now)


def give_back_unused(now: datetime) -> None:
    """A slot that nobody came to is given back to all."""
    patience = timedelta(seconds=settings.GANGWAY_NO_SHOW_S)
    late = Reservation.objects.filter(
        state=S.ACTIVE, kind=Reservation.Kind.USE, used_at__isnull=True,
        start_at__lte=now - patience, made_at__lte=now - patience,
    )  # fmt: skip
    minutes = settings.GANGWAY_NO_SHOW_S / 60
    _close(late, S.NO_SHOW, now, f"Nothing ran on its cards for {minutes:g} min.")


def swap_lost_cards(now: datetime) -> None:
    """A card that failed or went away is swapped for an equal one, and the holder is told."""
    lost = ReservationCard.objects.filter(LOST, live=True, reservation__kind="use")
    for pk in sorted(set(lost.values_list("reservation_id", flat=True))):
        with ledger.locked():
            row = Reservation.objects.select_related("team").get(pk=pk)
            if row.live and row.end_at > now:
                _swap(row, now)


def _swap(row: Reservation, now: datetime) -> None:
    start, told = max(row.start_at, now), []
    for gone in row.cards.filter(LOST, live=True).select_related("card__gpu__node"):
        found = next(_equal_ones(row, gone, start, now), None)
        name = f"GPU {gone.card.gpu.index} on {gone.card.gpu.node.name}"
        if found is None:
            told.append(f"{name} is out of service, and no equal card is free.")
            continue
        ReservationCard.objects.filter(pk=gone.pk).update(card=Card.objects.get(gpu=found.id))
        told.append(f"{name} is out of service; GPU {found.index} on {found.node} takes its place.")
        audit.note(
            CLOCK, "swap booked card", f"reservation {row.pk}", at=now, team_id=row.team_id,
            reason=told[-1],
        )  # fmt: skip
    trouble = " ".join(told)[:200]
    if trouble != row.trouble:
        Reservation.objects.filter(pk=row.pk).update(trouble=trouble, version=F("version") + 1)


def _equal_ones(
    row: Reservation, gone: ReservationCard, start: datetime, now: datetime
) -> Iterator[Bookable]:
    """Free cards of the same model and no less memory, the same node's first.

    A booking on one node stays on one; one that named its cards or nodes gets no others.
    """
    gpu = gone.card.gpu
    wanted = Reservation(
        kind=row.kind, gpu_model=gpu.model, gpu_memory_mib=gpu.memory_mib, nodes=1,
        on_nodes=[gpu.node.name],
    )  # fmt: skip
    if not row.nodes and not row.on_nodes:
        return
    mine = {card.id for card in bookable.own_cards(row)}
    cards = [card for card in bookable.cards_of(wanted) if card.id not in mine]
    facts = bookable.facts(cards, now, start, row.end_at)
    for card in sorted(facts.cards, key=lambda one: (one.memory_mib, one.index)):
        if booking.is_free(card, us(start), us(row.end_at)):
            yield card


def _ask(job_id: int, note: str, now: datetime) -> bool:
    with transaction.atomic():
        return ask_to_stop(CLOCK, locked(job_id), StopReason.RECLAIM, at=now, note=note)


def _close(
    rows: QuerySet[Reservation], state: Reservation.State, now: datetime, reason: str = ""
) -> None:
    for pk in list(rows.values_list("pk", flat=True)):
        with ledger.locked():
            row = Reservation.objects.select_for_update(of=("self",)).get(pk=pk)
            if row.live:
                close(CLOCK, row, state, at=now, reason=reason)
