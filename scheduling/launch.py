"""A placed attempt to processes, and a stop to its nodes: load, speak, write.

No transaction is open while a machine speaks. Every step may be repeated: what has begun is
asked again by the reconciler until each node has answered. A refusal is an answer and ends the
attempt by its class; silence is not, and changes nothing.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from django.db import close_old_connections, transaction
from django.db.models import Prefetch

from nodes import clock, runs
from nodes.errors import NodeRefused, NodeUnreachable

from . import refusals, reports
from .actors import LAUNCH
from .models import Attempt, Job, Lease, Part
from .run_orders import build
from .states import JobEvent, JobState
from .transitions import move

log = logging.getLogger(__name__)

Answer = dict[str, Any] | NodeRefused | NodeUnreachable


def launch(attempt_id: int) -> None:
    """Start an attempt on all its nodes or on none. Safe to call twice and at the same time."""
    loaded = _load(attempt_id)
    if loaded is None:
        return
    job, attempt, parts = loaded
    if job.state == JobState.PLACED and not _begin(job, attempt):
        return
    if job.state != JobState.STARTING:
        return
    unprepared = [part for part in parts if part.prepared_at is None]
    prepared = _each(unprepared, lambda part: runs.prepare(part.node, build(part, parts, job)))
    if not _write_prepared(job, attempt, unprepared, prepared):
        return
    _go(attempt, [part for part in parts if part.started_at is None and part.gone_at is None])


def stop(attempt_id: int) -> None:
    """Tell every node of a stopping attempt that still has it. Repeatable."""
    loaded = _load(attempt_id)
    if loaded is None or loaded[0].state != JobState.STOPPING:
        return
    job, attempt, parts = loaded
    live = [part for part in parts if part.gone_at is None]
    answers = _each(
        live,
        lambda part: runs.stop(
            part.node,
            attempt.run_id,
            grace_s=job.grace_s,
            reason=attempt.stop_reason or "rank_failed",
            signal=job.stop_signal,
        ),
    )
    at = clock.now()
    for part, answer in zip(live, answers, strict=True):
        if isinstance(answer, dict):
            Part.objects.filter(pk=part.pk).update(stop_sent_at=at)
            reports.hear(part.node_id, [answer], at=at)
    reports.take()


def _load(attempt_id: int) -> tuple[Job, Attempt, list[Part]] | None:
    leases = Lease.objects.filter(freed_at__isnull=True).select_related("card__gpu")
    attempt = (
        Attempt.objects.filter(pk=attempt_id, ended_at__isnull=True)
        .select_related("job__team", "job__user", "job__pool")
        .first()
    )
    if attempt is None:
        return None
    parts = list(
        Part.objects.filter(attempt=attempt)
        .select_related("node", "attempt")
        .prefetch_related(Prefetch("leases", queryset=leases))
        .order_by("node_rank")
    )
    return attempt.job, attempt, parts


def _begin(job: Job, attempt: Attempt) -> bool:
    """PLACED to STARTING, committed before the first byte leaves."""
    at = clock.now()
    with transaction.atomic():
        if not move(LAUNCH, job, JobEvent.BEGIN, at=at, attempt=attempt.number):
            return False
        Attempt.objects.filter(pk=attempt.pk).update(began_at=at)
    return True


def _write_prepared(
    job: Job, attempt: Attempt, parts: Sequence[Part], answers: Sequence[Answer]
) -> bool:
    """Note who is ready and gets go next. False unless all are and the job is still starting."""
    at = clock.now()
    refused = [
        (part, answer)
        for part, answer in zip(parts, answers, strict=True)
        if isinstance(answer, NodeRefused)
    ]
    ready = [p.pk for p, a in zip(parts, answers, strict=True) if isinstance(a, dict)]
    if refused:
        refusals.take(job, attempt, refused, at=at)
        return False
    with transaction.atomic():
        Part.objects.filter(pk__in=ready).update(prepared_at=at)
        if len(ready) < len(parts):
            return False
        _note_phase(attempt, at)
        going = Part.objects.filter(attempt=attempt, started_at=None, gone_at=None)
        going.update(go_sent_at=at)
        return Job.objects.filter(pk=job.pk, state=JobState.STARTING).exists()


def _note_phase(attempt: Attempt, at: datetime) -> None:
    began = attempt.began_at or at
    seconds = round(max((at - began).total_seconds(), 0.0), 3)
    Attempt.objects.filter(pk=attempt.pk).update(phases={**attempt.phases, "prepare": seconds})


def _go(attempt: Attempt, parts: Sequence[Part]) -> None:
    answers = _each(parts, lambda part: runs.go(part.node, attempt.run_id))
    at = clock.now()
    refused = [
        (part, answer)
        for part, answer in zip(parts, answers, strict=True)
        if isinstance(answer, NodeRefused)
    ]
    for part, answer in zip(parts, answers, strict=True):
        if isinstance(answer, dict):
            reports.hear(part.node_id, [answer], at=at)
    reports.take()
    if refused:
        refusals.take(attempt.job, attempt, refused, at=at)


def _each(parts: Sequence[Part], speak: Callable[[Part], dict[str, Any]]) -> list[Answer]:
    """Speak to all nodes at once; the answers in the order of ``parts``."""

    def one(part: Part) -> Answer:
        try:
            return speak(part)
        except NodeUnreachable as silent:
            log.info("%s on %s: %s", part.attempt.run_id, part.node.name, silent.cause)
            return silent
        except NodeRefused as refusal:
            return refusal

    def in_thread(part: Part) -> Answer:
        try:
            return one(part)
        finally:
            close_old_connections()

    if len(parts) < 2:
        return [one(part) for part in parts]
    with ThreadPoolExecutor(min(len(parts), 8)) as pool:
        return list(pool.map(in_thread, parts))
