"""A Card for every Gpu that the probe found: what the ledger counts on."""

from nodes.models import Gpu

from .models import Card

RESERVE_MIB = 512


def sync_cards() -> int:
    """Add the missing cards. Returns how many; one query when there is none."""
    new = Gpu.objects.filter(card__isnull=True, parent__isnull=True)
    made = Card.objects.bulk_create(
        (Card(gpu=gpu, memory_mib=max(gpu.memory_mib - RESERVE_MIB, 0)) for gpu in new),
        ignore_conflicts=True,
    )
    return len(made)
