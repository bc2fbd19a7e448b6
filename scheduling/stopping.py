"""Asking a job to leave, for whatever reason; the stronger reason wins.

Writes only rows: what has no process ends here, what may have one is told by its nodes
(``scheduling.launch.stop``) and leaves on their word.
"""

from datetime import datetime

from nodes import hints

from . import leases
from .actors import Actor
from .models import Attempt, Job, Part
from .states import STRENGTH, JobEvent, JobState, StopReason
from .transitions import move


def ask_to_stop(
    actor: Actor,
    job: Job,
    reason: StopReason,
    *,
    at: datetime,
    note: str = "",
    by: Job | None = None,
) -> bool:
    """Stop ``job`` (its row locked by the caller). True if this changed anything.

    What leaves for PREEMPT, RECLAIM, DRAIN, CONTENTION or FAULT is run again if the job says
    requeue. ``by`` is the job it makes way for; ``note`` is what its page and the last line of
    its log say of the cause, by default ``cause(reason, by)``.
    """
    state = JobState(job.state)
    note = note or (cause(reason, by) if by is not None else "")
    if state in (JobState.PENDING, JobState.HELD):
        return reason == StopReason.CANCEL and move(actor, job, JobEvent.CANCEL, at=at, note=note)
    attempt = Attempt.objects.filter(job=job, ended_at__isnull=True).first()
    if attempt is None:
        return False
    if state == JobState.PLACED:
        return _unplace(actor, job, attempt, reason, at=at, note=note)
    if state == JobState.CLEANING:
        return _end_after_cleaning(actor, job, attempt, reason, at=at, note=note)
    return _stop(actor, job, attempt, reason, at=at, note=note, by=by)


def cause(reason: StopReason, by: Job) -> str:
    """Such as: preempted by job 42 (team speech, priority high)."""
    word = {StopReason.PREEMPT: "preempted", StopReason.RECLAIM: "reclaimed"}.get(reason, "stopped")
    whose = f"team {by.team.name}, priority {by.priority_class.name}"
    return f"{word} by job {by.pk} ({whose})"


def _unplace(
    actor: Actor, job: Job, attempt: Attempt, reason: StopReason, *, at: datetime, note: str
) -> bool:
    """No byte has left for any node: the placement is taken back here and now."""
    event = JobEvent.CANCEL if reason == StopReason.CANCEL else JobEvent.WITHDRAW
    if not move(actor, job, event, at=at, note=note, attempt=attempt.number):
        return False
    outcome = (
        Attempt.Outcome.CANCELLED if reason == StopReason.CANCEL else Attempt.Outcome.WITHDRAWN
    )
    Attempt.objects.filter(pk=attempt.pk).update(
        stop_reason=reason, stop_note=note, outcome=outcome, gone_at=at, ended_at=at
    )
    parts = list(Part.objects.filter(attempt=attempt))
    Part.objects.filter(attempt=attempt).update(gone_at=at, settled_at=at)
    for part in parts:
        leases.free(part.leases.filter(freed_at__isnull=True), at=at)
    return True


def _end_after_cleaning(
    actor: Actor, job: Job, attempt: Attempt, reason: StopReason, *, at: datetime, note: str
) -> bool:
    if reason != StopReason.CANCEL or attempt.goal == Attempt.Goal.END:
        return False
    Attempt.objects.filter(pk=attempt.pk).update(goal=Attempt.Goal.END, stop_reason=reason)
    return move(actor, job, JobEvent.CANCEL, at=at, note=note, attempt=attempt.number)


def _stop(
    actor: Actor,
    job: Job,
    attempt: Attempt,
    reason: StopReason,
    *,
    at: datetime,
    note: str,
    by: Job | None,
) -> bool:
    """STARTING, RUNNING or STOPPING: note the reason, and let the nodes be told."""
    old = attempt.stop_reason
    if old and STRENGTH[reason] <= STRENGTH[StopReason(old)]:
        return False
    if not move(actor, job, JobEvent.STOP, at=at, note=note or reason, attempt=attempt.number):
        return False
    again = job.requeue and reason not in (StopReason.CANCEL, StopReason.TIME_LIMIT)
    Attempt.objects.filter(pk=attempt.pk).update(
        stop_reason=reason,
        stop_note=note,
        stop_by_job=by,
        stop_asked_at=attempt.stop_asked_at or at,
        goal=Attempt.Goal.AGAIN if again else Attempt.Goal.END,
    )
    Part.objects.filter(attempt=attempt, gone_at__isnull=True).update(stop_sent_at=None)
    hints.stop_soon(attempt.pk)
    return True
