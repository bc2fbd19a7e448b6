"""One job's victims asked to leave and their cards pledged to it: both, or neither.

The ledger lock is the caller's. What is no longer as the plan saw it (a victim has ended, the
winner was cancelled, a card was pledged) drops the whole of it; the next cycle plans again.
"""

import logging
from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction

from nodes import hints

from . import audit, pledges
from .actors import CYCLE
from .engine.world import Eviction, Pledge
from .models import Attempt, Card, Job
from .states import JobState, StopReason
from .stopping import ask_to_stop, cause

log = logging.getLogger(__name__)
MAY_LEAVE = frozenset({JobState.PLACED, JobState.STARTING, JobState.RUNNING})


class _Stale(Exception):
    """The rows are not what the plan was made of."""


def carry_out(pledge: Pledge, evictions: Sequence[Eviction], *, now: datetime) -> bool:
    """Pledge the cards to the winner and ask its victims to leave. True when it stands."""
    try:
        with transaction.atomic():
            _write(pledge, evictions, now=now)
    except (_Stale, IntegrityError, Card.DoesNotExist) as lost:
        log.info("pledge to job %d dropped: %s", pledge.job, lost)
        hints.cycle_soon(f"pledge to job {pledge.job} dropped")
        return False
    return True


def _write(pledge: Pledge, evictions: Sequence[Eviction], *, now: datetime) -> None:
    ids = sorted({pledge.job, *(eviction.job for eviction in evictions)})
    rows = Job.objects.select_for_update(of=("self",)).select_related("team", "priority_class")
    jobs = rows.order_by("pk").in_bulk(ids)
    winner = jobs[pledge.job]
    if winner.state != JobState.PENDING:
        raise _Stale(f"job {winner.pk} is {winner.state}")
    pledges.make(pledge, at=now)
    live = Attempt.objects.filter(ended_at__isnull=True, job__in=ids)
    attempts = dict(live.values_list("job_id", "pk"))
    for eviction in evictions:
        victim = jobs[eviction.job]
        if attempts.get(victim.pk) != eviction.attempt or victim.state not in MAY_LEAVE:
            raise _Stale(f"victim {victim.pk} is {victim.state}")
        _evict(victim, winner, eviction, now=now)


def _evict(victim: Job, winner: Job, eviction: Eviction, *, now: datetime) -> None:
    reason = StopReason.RECLAIM if eviction.why == "reclaim" else StopReason.PREEMPT
    placed = victim.state == JobState.PLACED
    if not ask_to_stop(CYCLE, victim, reason, at=now, by=winner):
        raise _Stale(f"victim {victim.pk} is asked to leave already")
    audit.note(
        CYCLE,
        str(reason),
        f"job {victim.pk}",
        at=now,
        team_id=victim.team_id,
        reason=cause(reason, winner),
        by=winner.pk,
        gpu_seconds_at_stake=eviction.cost_us // 1_000_000,
    )
    if placed:
        hints.cycle_soon(f"job {victim.pk} gave its cards back")
