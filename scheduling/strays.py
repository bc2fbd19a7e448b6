"""Runs that no row knows: they occupy their cards while they live, and are never stopped unasked.

Such a run is of another life of this database (a restore, a portal set up anew), or somebody's work
all the same. Owns UnknownRun and the word on the card that says why it is withheld. What has ended
is settled, what was only prepared never starts; what lives is an operator's to stop.
"""

import logging
from datetime import datetime
from typing import Any

from django.db import transaction

from nodes import clock, hints, runs
from nodes.errors import NodeError
from nodes.models import Node

from . import audit, leases
from .actors import Actor
from .models import UnknownRun

log = logging.getLogger(__name__)
LIVE = ("started", "unsupervised")


def meet(node_id: int, run_id: str) -> None:
    """Ask the node of a run that no row knows; do what takes nothing from anybody. Repeatable."""
    node = Node.objects.filter(pk=node_id).first()
    if node is None:
        return
    try:
        found = [r for r in runs.look(node, [run_id])["reports"] if r.get("run") == run_id]
        said = found[0] if found else {"state": "unknown", "seq": 0}
        if said.get("state") in LIVE and said.get("seq") != 5:
            _occupy(node, run_id, said, at=clock.now())
            return
        if said.get("state") == "prepared":
            runs.stop(node, run_id, grace_s=0, reason="withdraw")
        if found:
            runs.clean(node, run_id, settle=True)
    except NodeError as silent:
        log.info("node %s: unknown run %s is asked for later: %s", node.name, run_id, silent.cause)
        return
    _gone(node, run_id, at=clock.now())


def look_again(node: Node) -> None:
    """Ask once more for the unknown runs of a node that were alive."""
    live = UnknownRun.objects.filter(node=node, gone_at__isnull=True)
    for run_id in live.values_list("run_id", flat=True):
        meet(node.pk, run_id)


def stop(actor: Actor, node: Node, run_id: str, *, grace_s: int, reason: str, at: datetime) -> None:
    """An operator ends a run that no row knows. Raises NodeError if the node cannot be asked."""
    audit.note(actor, "stop unknown run", f"node {node.name}", at=at, reason=reason, run=run_id)
    runs.stop(node, run_id, grace_s=grace_s, reason="unknown")


@transaction.atomic
def _occupy(node: Node, run_id: str, said: dict[str, Any], *, at: datetime) -> None:
    held = said.get("holds")
    cards = sorted({str(uuid)[:96] for uuid in held}) if isinstance(held, list) else []
    run, new = UnknownRun.objects.get_or_create(
        node=node, run_id=run_id, defaults={"first_heard_at": at, "cards": cards}
    )
    if new:
        log.warning("node %s runs %s, which nobody knows; it is left alone", node.name, run_id)
    leases.withhold(_cards(run), at=at, note=_note(run))


@transaction.atomic
def _gone(node: Node, run_id: str, *, at: datetime) -> None:
    run = UnknownRun.objects.filter(node=node, run_id=run_id, gone_at__isnull=True).first()
    if run is None:
        return
    UnknownRun.objects.filter(pk=run.pk).update(gone_at=at)
    leases.give_back(_cards(run), note=_note(run))
    hints.cycle_soon(f"unknown run {run_id} gone")


def _cards(run: UnknownRun) -> list[str]:
    return [str(uuid) for uuid in run.cards]


def _note(run: UnknownRun) -> str:
    return (
        f"Run {run.run_id}, which no job of this portal knows, may be on this card. It is left "
        "alone; an operator can end it with manage.py stop_unknown."
    )
