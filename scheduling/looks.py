"""One look at one node: hear its runs, settle what is kept, check cards that are being released.

A look asks for all the node's live runs and names those the ledger believes there; what the node
does not know although its start was acknowledged has no process, and is reported as such.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from nodes import clock, hints, liveness, runs
from nodes.errors import NodeError, NodeRefused, NodeUnreachable
from nodes.models import Node

from . import audit, finishing, leases, reports, strays
from .actors import COMMAND, NODES
from .models import Attempt, Lease, Part
from .part_facts import free_clean_cards

log = logging.getLogger(__name__)
DIRTY_FOR = timedelta(seconds=60)
MOST_SETTLED = 200
CLEAN_BELOW_MIB = 512


def look(node_id: int) -> None:
    """Look once. A silent node is noted as such and nothing else changes."""
    node = Node.objects.filter(pk=node_id).first()
    if node is None or node.alarm:
        return
    live = list(
        Part.objects.filter(node=node, gone_at__isnull=True, go_sent_at__isnull=False)
        .select_related("attempt__job", "node")
        .order_by("id")
    )
    asked_at = clock.now()
    try:
        said = runs.look(node, [part.attempt.run_id for part in live])
    except NodeError as silent:
        liveness.not_heard(node, why=silent.cause, at=clock.now())
        return
    at = clock.now()
    liveness.heard(node, boot_id=str(said.get("boot_id") or ""), at=at)
    reports.hear(node.pk, said.get("reports") or [], at=at)
    _note_stuck(live, said.get("reports") or [], at=at)
    _lost_runs(live, said.get("unknown") or [], asked_at=asked_at, at=at)
    reports.take()
    strays.look_again(node)
    tidy(node, at=at)


def tidy(node: Node, *, at: datetime) -> None:
    """For runs that are gone: keep logs that are not kept, free clean cards, settle the rest.

    A part of a gang that goes on elsewhere gives its cards back too; it is settled at the end.
    """
    parts = (
        Part.objects.filter(node=node, gone_at__isnull=False, settled_at__isnull=True)
        .select_related("node", "attempt__job__user")
        .prefetch_related("leases")
        .order_by("id")[:MOST_SETTLED]
    )
    settled = []
    try:
        for part in parts:
            if _tidied(part, at=at):
                settled.append(part.pk)
    except NodeUnreachable as silent:
        log.info("node %s: tidying goes on later: %s", node.name, silent.cause)
    finally:
        Part.objects.filter(pk__in=settled).update(settled_at=at)


def _tidied(part: Part, *, at: datetime) -> bool:
    """True when nothing more is to be asked of the part's node."""
    try:
        return _tidy_part(part, at=at)
    except NodeRefused as refused:
        log.warning("%s is not tidied: %s", part, refused.cause)
        return False


def _tidy_part(part: Part, *, at: datetime) -> bool:
    ended = part.attempt.ended_at is not None
    kept = ended and (part.started_at is None or finishing.keep_logs(part))
    releasing = any(lease.state == Lease.State.RELEASING for lease in part.leases.all())
    settle = kept and not releasing
    if not releasing and not settle:
        return False
    try:
        answer = runs.clean(part.node, part.attempt.run_id, settle=settle)
    except NodeRefused:
        # The node has no trace of the run: its cards are judged by what the probe saw since.
        answer = {"cards": _seen_clean(part)}
    if settle:
        return True
    if free_clean_cards(part, answer.get("cards"), at=at):
        hints.cycle_soon(f"cards of {part.attempt.run_id} are clean")
    for lease in part.leases.filter(state=Lease.State.RELEASING):
        _give_up_on(lease, part, answer, at=at)
    return False


def _seen_clean(part: Part) -> dict[str, dict[str, bool]]:
    leases_ = part.leases.filter(freed_at__isnull=True).select_related("card__gpu")
    return {
        lease.card.gpu.uuid: {
            "clean": not lease.card.gpu.foreign_use
            and lease.card.gpu.used_mib <= CLEAN_BELOW_MIB
            and lease.releasing_at is not None
            and lease.card.gpu.seen_at is not None
            and lease.card.gpu.seen_at > lease.releasing_at
        }
        for lease in leases_
    }


def _give_up_on(lease: Lease, part: Part, answer: dict[str, Any], *, at: datetime) -> None:
    """Withhold a card that did not get clean, naming the job and the user that left it so."""
    if lease.releasing_at is None or at - lease.releasing_at < DIRTY_FOR:
        return
    job = part.attempt.job
    card = (answer.get("cards") or {}).get(lease.card.gpu.uuid) or {}
    left = _processes(card.get("pids"))
    whose = f"Job {job.pk} ({part.attempt.run_id}) of {job.user.get_username()}"
    late = f"{int(DIRTY_FOR.total_seconds())} s after its end"
    if card.get("used_mib") is None:
        note = f"{whose} had this card; its node cannot tell {late} whether it is clean."
    else:
        used = f"{card['used_mib']} MiB in use{' by ' + left if left else ''}"
        note = f"{whose} left {used} {late}."
    with transaction.atomic():
        if leases.quarantine(lease, at=at, note=note[:500]):
            subject = f"card {lease.card.gpu.uuid}"
            facts = {"job": job.pk, "user": job.user.get_username(), "node": part.node.name}
            audit.note(
                NODES, "quarantine", subject, at=at, team_id=job.team_id, reason=note, **facts
            )


def _processes(told: Any) -> str:
    """Such as: pid 812 of alice (python, state D in nv_wait). Empty for none, and for nonsense."""
    found = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    words = []
    for one in found[:4]:
        whose = f" of {one['user']}" if one.get("user") else ""
        waits = f" in {one['wchan']}" if one.get("wchan") not in (None, "", "0") else ""
        state = f"state {one['state']}{waits}" if one.get("state") else ""
        more = ", ".join(str(word) for word in (one.get("name"), state) if word)
        words.append(f"pid {one.get('pid')}{whose}{f' ({more})' if more else ''}")
    return ", ".join(words)


def _note_stuck(live: list[Part], said: Sequence[Any], *, at: datetime) -> None:
    """What KILL does not end is named on the attempt, once as it is: nothing else can be done."""
    stuck = {one.get("run"): one.get("stuck") for one in said if isinstance(one, dict)}
    for part in live:
        left = _processes(stuck.get(part.attempt.run_id))
        if not left:
            continue
        note = f"KILL does not end {left} on {part.node.name}; its cards stay held."
        attempt = Attempt.objects.filter(pk=part.attempt_id, ended_at__isnull=True)
        with transaction.atomic():
            if attempt.exclude(note=note[:500]).update(note=note[:500]):
                job = part.attempt.job
                subject = f"job {job.pk}"
                audit.note(NODES, "stuck", subject, at=at, team_id=job.team_id, reason=note[:500])


def _lost_runs(live: list[Part], unknown: list[str], *, asked_at: datetime, at: datetime) -> None:
    """A run whose start was acknowledged before we asked, and of which the node has no trace."""
    for part in live:
        started = part.started_at is not None and part.started_at < asked_at
        if started and part.attempt.run_id in unknown:
            gone = {
                "run": part.attempt.run_id,
                "seq": 90,
                "state": "unsupervised",
                "alive": 0,
                "end": "unsupervised",
            }
            reports.hear(part.node_id, [gone], at=at)


def stop_unknown(node_id: int, run_id: str) -> None:
    """End a run that no row knows, for an operator who wants that; settle it once it is gone."""
    node = Node.objects.filter(pk=node_id).first()
    if node is None:
        return
    try:
        strays.stop(COMMAND, node, run_id, grace_s=5, reason="asked for", at=clock.now())
        answer = runs.clean(node, run_id, settle=True)
        log.warning("node %s: stopped unknown run %s: %s", node.name, run_id, answer.get("clean"))
    except NodeError as silent:
        log.info("node %s: unknown run %s is stopped later: %s", node.name, run_id, silent.cause)


def look_at_all() -> None:
    """Ask for a look at every node that is not under an alarm."""
    for node_id in Node.objects.filter(alarm="").order_by("id").values_list("pk", flat=True):
        hints.look_soon(node_id)
