"""Rows that should have moved on by now are asked for again. It decides nothing itself.

Every hint may be lost and every worker may die between two steps; this looks at what is left
standing and sends the same hint once more. Each step it asks for is repeatable.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from nodes import clock, hints
from nodes.models import Wake

from . import faults, freezing
from .actors import CLOCK
from .models import Attempt
from .states import JobState, StopReason
from .stopping import ask_to_stop
from .transitions import locked

SOON = timedelta(seconds=2)
AGAIN = timedelta(seconds=5)


def reconcile() -> None:
    """Re-issue what is overdue. Cost: a handful of queries over live attempts."""
    now = clock.now()
    live = Attempt.objects.filter(ended_at__isnull=True)
    for attempt_id in _ids(live.filter(job__state=JobState.CLEANING, gone_at__lt=now - SOON)):
        hints.finish_soon(attempt_id)
    if Wake.objects.filter(made_at__lt=now - SOON).exists():
        hints.repeat_cycle()
    if freezing.current() is not None:
        return
    placed = live.filter(job__state=JobState.PLACED, placed_at__lt=now - SOON)
    starting = live.filter(job__state=JobState.STARTING, began_at__lt=now - SOON)
    hints.launch_soon(_ids(placed))
    _withdraw_the_hopeless(starting, now)
    hints.launch_soon(_ids(starting))
    for attempt_id in _ids(_to_stop(live, now)):
        hints.stop_soon(attempt_id)
    faults.leave_failed_cards(now)


def _ids(attempts: QuerySet[Attempt]) -> list[int]:
    return list(attempts.order_by("id").values_list("pk", flat=True)[:500])


def _to_stop(live: QuerySet[Attempt], now: datetime) -> QuerySet[Attempt]:
    overdue = Q(parts__stop_sent_at__isnull=True) | Q(parts__stop_sent_at__lt=now - AGAIN)
    stopping = live.filter(job__state=JobState.STOPPING, parts__gone_at__isnull=True)
    return stopping.filter(overdue).distinct()


def _withdraw_the_hopeless(starting: QuerySet[Attempt], now: datetime) -> None:
    """A node that has not answered for so long will not get the job; its word is still awaited."""
    patience = timedelta(seconds=settings.GANGWAY_LAUNCH_PATIENCE_S)
    for attempt in starting.filter(began_at__lt=now - patience).select_related("job"):
        with transaction.atomic():
            job = locked(attempt.job_id)
            if job.state == JobState.STARTING:
                seconds = settings.GANGWAY_LAUNCH_PATIENCE_S
                note = f"Not started within {seconds} s: a node does not answer."
                ask_to_stop(CLOCK, job, StopReason.WITHDRAW, at=now, note=note)
