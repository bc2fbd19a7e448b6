"""Heard or not heard: what each look writes about a node. Silence frees nothing.

Suspect (three missed looks and at least 45 s) means no new work and nothing else; one answer
makes it up again.
"""

from datetime import datetime, timedelta

from . import hints
from .models import Node

SUSPECT_AFTER_LOOKS = 3
SUSPECT_AFTER = timedelta(seconds=45)


def heard(node: Node, *, boot_id: str, at: datetime) -> None:
    """A look was answered."""
    changed = node.liveness != Node.Liveness.UP or node.silence
    Node.objects.filter(pk=node.pk).update(
        seen_at=at, boot_id=boot_id[:64], missed_looks=0, silence="", liveness=Node.Liveness.UP
    )
    if changed:
        hints.cycle_soon(f"node {node.name} is heard")


def not_heard(node: Node, *, why: str, at: datetime) -> None:
    """A look was not answered; ``why`` is what the page says."""
    missed = node.missed_looks + 1
    silent_for = at - (node.seen_at or node.enrolled_at)
    suspect = missed >= SUSPECT_AFTER_LOOKS and silent_for >= SUSPECT_AFTER
    liveness = Node.Liveness.SUSPECT if suspect else Node.Liveness(node.liveness)
    Node.objects.filter(pk=node.pk).update(
        missed_looks=missed, silence=why[:500], liveness=liveness
    )
