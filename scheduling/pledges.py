"""Pledges: made with the evictions they wait for, ended with a start or when they fall.

The only writer of Pledge, its parts and its cards; who makes one holds the ledger lock. That a
card is pledged to one job at a time is the database's promise.
"""

from collections.abc import Iterable
from datetime import datetime

from .engine import world
from .models import Card, Pledge, PledgeCard, PledgePart

STARTED = "started"


def make(planned: world.Pledge, *, at: datetime) -> Pledge:
    """Promise the cards. Raises IntegrityError if one, or the job, has a live pledge already."""
    gpu_ids = [gpu for part in planned.parts for gpu in part.gpus]
    cards = dict(Card.objects.filter(gpu__in=gpu_ids).values_list("gpu_id", "pk"))
    if len(cards) != len(gpu_ids):
        raise Card.DoesNotExist(f"{len(gpu_ids)} cards were pledged, {len(cards)} exist")
    pledge = Pledge.objects.create(job_id=planned.job, gpu_model=planned.model, made_at=at)
    parts = PledgePart.objects.bulk_create(
        PledgePart(
            pledge=pledge,
            node_id=part.node,
            cpus=part.cpus,
            memory_mib=part.memory_mib,
            disk_gib=part.disk_gib,
        )
        for part in planned.parts
    )
    PledgeCard.objects.bulk_create(
        PledgeCard(part=row, card_id=cards[gpu])
        for row, part in zip(parts, planned.parts, strict=True)
        for gpu in part.gpus
    )
    return pledge


def end(job_ids: Iterable[int], why: str, *, at: datetime) -> int:
    """End the live pledges of these jobs. Twice is once. Returns how many ended."""
    live = Pledge.objects.filter(job__in=list(job_ids), ended_at__isnull=True)
    ids = list(live.values_list("pk", flat=True))
    if ids:
        PledgeCard.objects.filter(part__pledge__in=ids).update(ended_at=at)
        Pledge.objects.filter(pk__in=ids).update(ended_at=at, why_ended=why)
    return len(ids)


def live() -> tuple[world.Pledge, ...]:
    """The live pledges as the engine sees them. One query."""
    rows = (
        PledgeCard.objects.filter(ended_at__isnull=True)
        .select_related("part__pledge", "card")
        .order_by("part__pledge", "part", "card__gpu")
    )
    cards: dict[PledgePart, list[int]] = {}
    for row in rows:
        cards.setdefault(row.part, []).append(row.card.gpu_id)
    found: dict[Pledge, list[world.PartPlan]] = {}
    for part, gpus in cards.items():
        sides = (part.cpus, part.memory_mib, part.disk_gib)
        planned = world.PartPlan(part.node_id, tuple(gpus), *sides)
        found.setdefault(part.pledge, []).append(planned)
    return tuple(
        world.Pledge(pledge.job_id, pledge.gpu_model, tuple(parts))
        for pledge, parts in found.items()
    )


def holders(card_ids: Iterable[int]) -> dict[int, int]:
    """Of these cards, those that are pledged: card id -> job id. One query."""
    live = PledgeCard.objects.filter(card__in=list(card_ids), ended_at__isnull=True)
    return dict(live.values_list("card_id", "part__pledge__job_id"))
