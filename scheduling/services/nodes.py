"""What an operator does to a node: put it to work in a pool, drain it, clear its alarm."""

from datetime import datetime

from django.db import transaction

from nodes import clock, hints
from nodes.models import Gpu, Node
from scheduling import audit
from scheduling.actors import Actor
from scheduling.cards import sync_cards
from scheduling.models import Pool, PoolNode


@transaction.atomic
def put_to_work(actor: Actor, node: Node, *, pool: str = "default") -> PoolNode:
    """Put an enrolled node into a pool (made if it is the first of all) and let it take work."""
    at = clock.now()
    chosen, _ = Pool.objects.get_or_create(name=pool)
    place, _ = PoolNode.objects.update_or_create(node=node, defaults={"pool": chosen})
    Node.objects.filter(pk=node.pk).update(accepts_work=True)
    sync_cards()
    audit.note(actor, "put to work", f"node {node.name}", at=at, pool=chosen.name)
    hints.cycle_soon(f"node {node.name} put to work")
    return place


@transaction.atomic
def set_accepts_work(
    actor: Actor, node: Node, accepts: bool, *, at: datetime, reason: str = ""
) -> None:
    """Cordon a node (no new work, running jobs stay) or give it work again."""
    Node.objects.filter(pk=node.pk).update(accepts_work=accepts)
    verb = "uncordon" if accepts else "cordon"
    audit.note(actor, verb, f"node {node.name}", at=at, reason=reason)
    hints.cycle_soon(f"node {node.name} {verb}ed")


@transaction.atomic
def set_place(
    actor: Actor, node: Node, *, rack: str | None, block: str | None, islands: list[list[int]]
) -> None:
    """Say where a node stands and which of its cards (by index) lie on one island.

    None leaves the rack or block as it is, no islands leave them. Cards in no list go to an
    island of their own behind the others. Jobs that run stay where they are.
    """
    at = clock.now()
    place = {"rack": rack, "block": block}
    given = {name: value for name, value in place.items() if value is not None}
    if given:
        Node.objects.filter(pk=node.pk).update(**given)
    told = " ".join(f"{name}={value}" for name, value in given.items())
    if islands:
        Gpu.objects.filter(node=node).update(island=len(islands))
    for number, indexes in enumerate(islands):
        Gpu.objects.filter(node=node, index__in=indexes).update(island=number)
    audit.note(actor, "place", f"node {node.name}", at=at, reason=told, islands=islands)
    hints.cycle_soon(f"node {node.name} has a new place")


@transaction.atomic
def clear_alarm(actor: Actor, node: Node, *, at: datetime, reason: str) -> None:
    """Let traffic to a node go on after its alarm was looked into."""
    was = Node.objects.select_for_update().get(pk=node.pk).alarm
    Node.objects.filter(pk=node.pk).update(alarm="")
    audit.note(actor, "clear alarm", f"node {node.name}", at=at, reason=reason, was=was)
    hints.cycle_soon(f"node {node.name} alarm cleared")
