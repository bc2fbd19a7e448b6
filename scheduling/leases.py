"""Leases: taken with a placement, freed on the node's word. Only writer of Lease and of the
counters on Card, both in one transaction, so that the CHECKs see every change.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import connection
from django.db.models import F, Q, QuerySet

from .models import Card, Lease, Part
from .states import CHARGED

WHOLE_MILLI = 1000


def charged() -> QuerySet[Lease]:
    """The leases that count against their teams now: from the placement until the run is gone."""
    return Lease.objects.filter(
        freed_at__isnull=True, part__gone_at__isnull=True, part__attempt__job__state__in=CHARGED
    )


def take(part: Part, card_ids: Sequence[int], *, at: datetime) -> None:
    """Take whole cards for a part. Raises IntegrityError if one is held: the caller's savepoint."""
    take_all([(part, card_ids)], at=at)


def take_all(wanted: Sequence[tuple[Part, Sequence[int]]], *, at: datetime) -> None:
    """Take whole cards for several parts at once, all or (by IntegrityError) none."""
    card_ids = [card_id for _, ids in wanted for card_id in ids]
    cards = Card.objects.order_by("pk").select_for_update().in_bulk(card_ids)
    if len(cards) != len(card_ids):
        raise Card.DoesNotExist(f"{len(card_ids)} cards were asked, {len(cards)} exist")
    Lease.objects.bulk_create(
        Lease(part=part, card=cards[pk], milli=WHOLE_MILLI, mib=cards[pk].memory_mib, taken_at=at)
        for part, ids in wanted
        for pk in ids
    )
    Card.objects.filter(pk__in=card_ids).update(
        held_milli=F("held_milli") + WHOLE_MILLI,
        held_mib=F("held_mib") + F("memory_mib"),
        version=F("version") + 1,
    )


def release(part_ids: Iterable[int], *, at: datetime) -> int:
    """The runs of these parts are gone; their cards still have to be seen clean."""
    held = Lease.objects.filter(part_id__in=list(part_ids), state=Lease.State.HELD)
    return held.update(state=Lease.State.RELEASING, releasing_at=at)


def free(leases: Iterable[Lease], *, at: datetime) -> int:
    """Free leases whose node said that the card is clean. Twice is once. Returns how many."""
    ids = [lease.pk for lease in leases]
    if not ids:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_FREE, [Lease.State.FREED, at, ids])
        row = cursor.fetchone()
    return int(row[0]) if row else 0


# One statement: the leases and their cards' counters never part.
_FREE = """
WITH freed AS (
    UPDATE scheduling_lease SET state = %s, freed_at = %s
    WHERE id = ANY(%s) AND freed_at IS NULL RETURNING card_id, milli, mib
), gone AS (
    SELECT card_id, sum(milli) AS milli, sum(mib) AS mib, count(*) AS leases
    FROM freed GROUP BY card_id
), counted AS (
    UPDATE scheduling_card AS card SET
        held_milli = greatest(held_milli - gone.milli, 0),
        held_mib = greatest(held_mib - gone.mib, 0),
        version = version + 1
    FROM gone WHERE card.id = gone.card_id RETURNING gone.leases
)
SELECT coalesce(sum(leases), 0) FROM counted
"""


def clear_quarantine(card: Card, *, at: datetime) -> None:
    """Somebody looked: what withheld the card is over, and what still held it is freed."""
    free(card.leases.filter(state=Lease.State.QUARANTINED, freed_at__isnull=True), at=at)
    Card.objects.filter(pk=card.pk).update(quarantined_at=None, quarantine_note="")


def quarantine(lease: Lease, *, at: datetime, note: str) -> bool:
    """Withhold a card that does not get clean; the note names who left it so."""
    changed = Lease.objects.filter(
        ~Q(state=Lease.State.QUARANTINED), pk=lease.pk, freed_at__isnull=True
    ).update(state=Lease.State.QUARANTINED, note=note)
    if changed:
        Card.objects.filter(pk=lease.card_id).update(quarantined_at=at, quarantine_note=note)
    return bool(changed)


def withhold(uuids: Sequence[str], *, at: datetime, note: str) -> int:
    """Withhold cards that are free as far as rows tell, for what a node says of them."""
    cards = Card.objects.filter(gpu__uuid__in=uuids, quarantined_at__isnull=True)
    return cards.update(quarantined_at=at, quarantine_note=note)


def give_back(uuids: Sequence[str], *, note: str) -> int:
    """Let cards be used again that were withheld with this very note, and for nothing else."""
    cards = Card.objects.filter(gpu__uuid__in=uuids, quarantine_note=note)
    return cards.update(quarantined_at=None, quarantine_note="")
