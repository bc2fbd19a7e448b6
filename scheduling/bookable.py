"""What a booking is weighed against: cards, who has them until when, what teams may hold.

Reads only, in a fixed number of queries; the questions to what was read are the engine's. A card
that a job holds is free from when its limit, its grace and the cleaning end at the latest; if the
job is preemptible, from when it could be saved and gone, counted from now; and a job of a slot is
gone when the slot ends.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from nodes.models import WORKING, Gpu, Node

from . import bookings, occupancy
from .bookings import Booked, us
from .engine.booking import Bookable, Busy, most_at_once
from .models import Lease, Quota, Reservation, Team

AVAILABLE = Q(
    present=True, health__in=WORKING, card__quarantined_at=None,
    node__accepts_work=True, node__alarm="", node__health__in=WORKING,
) & ~Q(node__liveness=Node.Liveness.LOST)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """A card that a job holds: ``free_us`` is when it can be clean, ``ends_us`` when it is at last.

    ``reservation`` 0: a job of the queue.
    """

    gpu: int
    model: str
    job: int
    team: int
    free_us: int
    ends_us: int
    reservation: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Cards that would do with their busy spans, and what everybody has booked or holds."""

    cards: tuple[Bookable, ...]
    booked: tuple[Booked, ...]
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Over:
    """A team's limit that a booking would break: milli-GPU, and the jobs that count into it."""

    team: str
    gpu_model: str
    limit: int
    booked: int
    jobs: tuple[int, ...]


def cards_of(row: Reservation, uuids: Sequence[str] = ()) -> list[Bookable]:
    """The cards that would do for a booking, free or not. One query."""
    gpus = Gpu.objects.filter(
        parent__isnull=True, card__isnull=False, node__pool_node__isnull=False
    )
    if row.kind != Reservation.Kind.MAINTENANCE:
        gpus = gpus.filter(AVAILABLE)
    if row.gpu_model:
        gpus = gpus.filter(model=row.gpu_model)
    if row.gpu_memory_mib:
        gpus = gpus.filter(memory_mib__gte=row.gpu_memory_mib)
    if row.on_nodes:
        gpus = gpus.filter(node__name__in=row.on_nodes)
    elif not row.nodes:
        gpus = gpus.filter(uuid__in=uuids)
    fields = ("id", "node__name", "model", "memory_mib", "index")
    return [Bookable(*found) for found in gpus.order_by("id").values_list(*fields)]


def own_cards(row: Reservation) -> list[Bookable]:
    """The cards a booking has, whatever became of them. One query."""
    gpus = Gpu.objects.filter(card__reservations__reservation=row, card__reservations__live=True)
    fields = ("id", "node__name", "model", "memory_mib", "index")
    return [Bookable(*found) for found in gpus.order_by("id").values_list(*fields)]


def facts(
    cards: Iterable[Bookable],
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    own: int = 0,
) -> Facts:
    """Fill in when the cards are busy in [since, until), by others than ``own``. Two queries."""
    booked = [one for one in bookings.live(since or now, until) if one.reservation != own]
    mine: set[int] = set()
    if own:
        rows = Reservation.objects.get(pk=own).cards.filter(live=True)
        mine = set(rows.values_list("card__gpu_id", flat=True))
    holders = [one for one in held(now) if not own or one.reservation != own]
    busy: dict[int, list[Busy]] = defaultdict(list)
    for slot in booked:
        who = "maintenance" if slot.team is None else f"reservation {slot.reservation}"
        busy[slot.gpu].append(Busy(slot.start_us, slot.end_us, who))
    for one in holders:
        busy[one.gpu].append(Busy(0, one.free_us, f"job {one.job}"))
    return Facts(
        tuple(replace(card, busy=tuple(busy[card.id]), own=card.id in mine) for card in cards),
        tuple(booked),
        tuple(holders),
    )


def held(now: datetime) -> list[Held]:
    """Every card that a job holds now, with when it can be clean. One query."""
    rows = Lease.objects.filter(state__in=[Lease.State.HELD, Lease.State.RELEASING]).values_list(
        "card__gpu_id", "card__gpu__model", "part__attempt__job_id",
        "part__attempt__job__team_id", "part__attempt__job__time_limit_s",
        "part__attempt__job__grace_s", "part__attempt__job__priority_class__preemptible",
        "part__attempt__started_at", "part__attempt__stop_asked_at", "part__gone_at",
        "part__attempt__job__reservation_id", "part__attempt__job__reservation__state",
        "part__attempt__job__reservation__end_at",
    )  # fmt: skip
    return [_held(row, now) for row in rows]


def _held(row: tuple[Any, ...], now: datetime) -> Held:
    gpu, model, job, team, limit_s, grace_s, preemptible, started, asked, gone, *slot = row
    reservation, state, until = slot
    clean = timedelta(seconds=occupancy.HANDOVER_S)
    window = timedelta(seconds=grace_s) + clean
    ends: datetime = (started or now) + timedelta(seconds=limit_s) + window
    if asked is not None:
        ends = min(ends, asked + window)
    if state in Reservation.LIVE:
        ends = min(ends, until)
    if gone is not None:
        ends = gone + clean
    free = min(ends, now + window) if preemptible else ends
    return Held(gpu, model, job, team, us(max(free, now)), us(max(ends, now)), reservation or 0)


def over_limits(
    facts: Facts, team: Team, wanted: Mapping[str, int], start_us: int, end_us: int
) -> Over | None:
    """The first limit up the tree that booking ``wanted`` cards (by model) would break.

    What the team's jobs in the queue hold beyond the start counts too: they would have to yield.
    """
    limited = Quota.objects.filter(borrowing_limit_milli__isnull=False).select_related("team")
    quotas = list(limited.order_by("team_id", "gpu_model"))
    if not quotas:
        return None
    parents = dict(Team.objects.values_list("pk", "parent_id"))
    chain = _chain(team.pk, parents)
    for quota in quotas:
        if quota.team_id not in chain:
            continue
        found = _over(facts, quota, parents, wanted, start_us, end_us)
        if found is not None:
            return found
    return None


def _over(
    facts: Facts, quota: Quota, parents: Mapping[int, int | None], wanted: Mapping[str, int],
    start_us: int, end_us: int,
) -> Over | None:  # fmt: skip
    model, limit = quota.gpu_model, quota.limit_milli
    asked = sum(n for name, n in wanted.items() if model in ("", name)) * 1000
    if limit is None or not asked:
        return None

    def counts(team_id: int | None, of: str) -> bool:
        return (
            team_id is not None and model in ("", of) and quota.team_id in _chain(team_id, parents)
        )

    slots = [(b.start_us, b.end_us, 1000) for b in facts.booked if counts(b.team, b.model)]
    jobs = [h for h in facts.held if not h.reservation and counts(h.team, h.model)]
    runs = [(0, h.ends_us, 1000) for h in jobs]
    if most_at_once([*slots, *runs], start_us, end_us) + asked <= limit:
        return None
    beyond = tuple(sorted({h.job for h in jobs if h.ends_us > start_us}))
    return Over(quota.team.name, model, limit, most_at_once(slots, start_us, end_us), beyond)


def _chain(team_id: int, parents: Mapping[int, int | None]) -> list[int]:
    chain: list[int] = []
    link: int | None = team_id
    while link is not None and link not in chain:
        chain.append(link)
        link = parents.get(link)
    return chain
