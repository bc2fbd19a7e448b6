"""Machines and their cards as the engine sees them: what is free of them, and why the rest is not.

A card is free when it is present, healthy enough, not quarantined, not in foreign use, and no
lease on it is live. Sums of CPU, memory and disk are those of live parts. Reads, never writes.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from django.db.models import OuterRef, Subquery, Sum

from nodes.models import WORKING, Gpu, Node

from .engine import world
from .models import Lease, Part


def nodes() -> tuple[world.Node, ...]:
    cards = _cards()
    held = {
        row["node_id"]: row
        for row in Part.objects.filter(gone_at__isnull=True)
        .values("node_id")
        .annotate(cpus_held=Sum("cpus"), mib_held=Sum("memory_mib"), gib_held=Sum("disk_gib"))
    }
    rows = Node.objects.filter(pool_node__isnull=False).select_related("pool_node").order_by("id")
    return tuple(_node(row, cards[row.pk], held.get(row.pk) or {}) for row in rows)


def _node(row: Node, cards: list[world.Gpu], held: Mapping[str, Any]) -> world.Node:
    why_not = _why_not(row)
    return world.Node(
        id=row.pk,
        name=row.name,
        pool=row.pool_node.pool_id,
        gpus=tuple(cards),
        cpus=row.cpus,
        memory_mib=row.memory_mib,
        disk_gib=row.disk_gib,
        cpus_free=max(row.cpus - held.get("cpus_held", 0), 0),
        memory_free_mib=max(row.memory_mib - held.get("mib_held", 0), 0),
        disk_free_gib=max(row.disk_gib - held.get("gib_held", 0), 0),
        labels=tuple(sorted((str(k), str(v)) for k, v in row.labels.items())),
        accepts_work=not why_not,
        why_not=why_not,
        penalty=_penalty(row.health) or max((gpu.penalty for gpu in cards), default=0),
        rack=row.rack,
        block=row.block,
    )


def _why_not(row: Node) -> str:
    if row.alarm:
        return "alarm"
    if not row.accepts_work:
        return "cordoned"
    if row.liveness != Node.Liveness.UP:
        return str(row.liveness)
    if row.driver_silent:
        return "its driver does not answer"
    return "" if row.health in WORKING else str(row.health)


def _cards() -> dict[int, list[world.Gpu]]:
    live = Lease.objects.filter(card__gpu=OuterRef("pk"), freed_at__isnull=True)
    live_state = live.order_by("-taken_at").values("state")[:1]
    rows = (
        Gpu.objects.filter(present=True, parent__isnull=True, card__isnull=False)
        .annotate(held=Subquery(live_state))
        .order_by("index", "id")
        .values_list(
            "node_id", "id", "uuid", "index", "model", "card__memory_mib", "island",
            "compute_capability", "health", "foreign_use", "card__quarantined_at", "held",
        )
    )  # fmt: skip
    cards: dict[int, list[world.Gpu]] = defaultdict(list)
    for (
        node_id, pk, uuid, index, model, memory_mib, island,
        version, health, foreign, quarantined, held,
    ) in rows:  # fmt: skip
        why_not = held or ""
        if quarantined:
            why_not = "quarantined"
        elif health not in WORKING:
            why_not = health
        elif foreign and not held:
            why_not = "foreign"
        cards[node_id].append(
            world.Gpu(
                pk,
                uuid,
                index,
                model,
                memory_mib,
                free=not why_not,
                why_not=why_not,
                island=island,
                capability=capability(version),
                penalty=_penalty(health),
            )
        )
    return cards


def _penalty(health: str) -> int:
    """What is watched is placed last: among cards of a node, and its node among nodes."""
    return 1 if health == Node.Health.WATCH else 0


def capability(version: str) -> int:
    """Ten times a CUDA compute capability as the driver names it: 90 for 9.0; 0 for none known."""
    major, _, minor = version.partition(".")
    known = major.isdecimal() and (not minor or minor.isdecimal())
    return int(major) * 10 + int(minor[:1] or 0) if known else 0
