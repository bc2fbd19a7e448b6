"""What a probe saw becomes rows: the node's size and facts, its cards and who else uses them.

A card is its UUID: seen again it is the same row, on another node it moves, unseen it stays and
is not ``present``. Never deletes, never places; `conditions` judges health. Runs every 30 s a node,
so it costs at most eleven queries; a new fact belongs to `readings`.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from . import conditions, hints, samples
from .models import Gpu, Node
from .readings import CardReading, Readings, read

log = logging.getLogger(__name__)

# A node that says it has a card which another node showed within this time is not believed.
BELIEF = timedelta(minutes=5)
WRITTEN = [
    "node", "index", "model", "product", "memory_mib", "pci_bus_id", "compute_capability",
    "present", "used_mib", "foreign_use", "facts", "seen_at",
]  # fmt: skip


def take_in(node: Node, probe_answer: dict[str, Any], at: datetime) -> bool:
    """Write one probe of ``node``, asked at ``at``. True when placement should look again.

    Anything may stand in the answer; nothing of it raises. An answer older than the last one
    taken changes nothing.
    """
    readings = read(probe_answer)
    with transaction.atomic():
        was = Node.objects.select_for_update().get(pk=node.pk)
        if was.probed_at is not None and was.probed_at > at:
            return False
        uuids = [card.uuid for card in readings.cards]
        known = {gpu.uuid: gpu for gpu in Gpu.objects.filter(Q(node=was) | Q(uuid__in=uuids))}
        cards_changed, unbelieved = _take_cards(was, readings, known, at)
        before = {uuid: gpu for uuid, gpu in known.items() if gpu.node_id == was.pk}
        cards_changed |= conditions.take(was, before, readings, at=at)
        samples.keep(was, readings, at=at)
        turned = was.driver_silent != bool(readings.facts["nvml_error"])
        changed = cards_changed or turned or _measures(was) != _measures(readings)
        _write_node(was, readings, unbelieved, at)
        if changed:
            hints.cycle_soon(f"inventory of {was.name}")
    for words in (*readings.odd, *unbelieved):
        log.warning("probe of %s: %s", node.name, words)
    return changed


def _measures(of: Node | Readings) -> tuple[int, int, int, str]:
    return of.cpus, of.memory_mib, of.disk_gib, of.boot_id


def _write_node(node: Node, readings: Readings, unbelieved: list[str], at: datetime) -> None:
    node.cpus, node.memory_mib = readings.cpus, readings.memory_mib
    node.disk_gib, node.boot_id = readings.disk_gib, readings.boot_id
    if readings.kernel_cursor is not None:
        node.kernel_cursor = readings.kernel_cursor
    node.facts = {**readings.facts, "odd": [*readings.odd, *unbelieved][:8]}
    node.probed_at = at
    node.save(
        update_fields=[
            "cpus", "memory_mib", "disk_gib", "boot_id", "facts", "probed_at", "kernel_cursor",
        ]
    )  # fmt: skip


def _take_cards(
    node: Node, readings: Readings, known: Mapping[str, Gpu], at: datetime
) -> tuple[bool, list[str]]:
    """Upsert what was seen, mark what was not. (did it matter?, what was not believed)

    ``known`` are the node's cards and those it shows, by UUID, as their rows are. A driver that
    did not answer says nothing of cards: none is gone because of it.
    """
    shown = {card.uuid: card for card in readings.cards}
    held = {uuid for uuid in shown if _shown_elsewhere(known.get(uuid), node, at)}
    seen = {uuid: card for uuid, card in shown.items() if uuid not in held}
    gone = [
        gpu.pk
        for gpu in known.values()
        if gpu.node_id == node.pk and gpu.present and gpu.uuid not in seen
    ]
    if readings.facts["nvml_error"]:
        gone = []
    changed = bool(gone) or any(_matters(known.get(uuid), seen[uuid], node) for uuid in seen)
    if gone:
        Gpu.objects.filter(pk__in=gone).update(present=False)
    Gpu.objects.bulk_create(
        # In one order for all nodes, so that two probes never wait for each other in a ring.
        [_row(seen[uuid], node, at) for uuid in sorted(seen)],
        update_conflicts=True,
        unique_fields=["uuid"],
        update_fields=WRITTEN,
    )
    return changed, [f"Card {uuid} is present on another node." for uuid in sorted(held)]


def _shown_elsewhere(gpu: Gpu | None, node: Node, at: datetime) -> bool:
    if gpu is None or gpu.node_id == node.pk or not gpu.present or gpu.seen_at is None:
        return False
    return gpu.seen_at > at - BELIEF


def _matters(gpu: Gpu | None, card: CardReading, node: Node) -> bool:
    if gpu is None or gpu.node_id != node.pk or not gpu.present:
        return True
    same_size = (gpu.memory_mib, gpu.model) == (card.memory_mib, card.model)
    return not same_size or bool(gpu.foreign_use) != bool(card.foreign_use)


def _row(card: CardReading, node: Node, at: datetime) -> Gpu:
    return Gpu(
        uuid=card.uuid,
        node=node,
        index=card.index,
        model=card.model,
        product=card.product,
        memory_mib=card.memory_mib,
        pci_bus_id=card.pci_bus_id,
        compute_capability=card.compute_capability,
        present=True,
        used_mib=card.used_mib,
        foreign_use=card.foreign_use,
        facts=card.facts,
        seen_at=at,
    )
