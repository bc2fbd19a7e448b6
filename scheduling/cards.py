"""A Card for every Gpu that the probe found: what the ledger counts on."""

from django.conf import settings

from nodes.models import Gpu

from .models import Card


def sync_cards() -> int:
    """Add the missing cards. Returns how many; one query when there is none.

    What a job may use of a card is its memory less GANGWAY_GPU_RESERVE_MIB.
    """
    reserve_mib = settings.GANGWAY_GPU_RESERVE_MIB
    new = Gpu.objects.filter(card__isnull=True, parent__isnull=True)
    made = Card.objects.bulk_create(
        (Card(gpu=gpu, memory_mib=max(gpu.memory_mib - reserve_mib, 0)) for gpu in new),
        ignore_conflicts=True,
    )
    return len(made)
