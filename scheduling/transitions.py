"""``move``: the only writer of a job's state.

It changes the row only if it is still where the caller saw it, writes the log line in the same
transaction, and tells by its return value whether it was the one. It never touches a lease: a
card is freed on the node's word, by ``scheduling.leases`` alone.
"""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from .actors import Actor
from .models import Job, JobLog
from .states import DONE, MOVES, JobEvent, JobState


def locked(job_id: int) -> Job:
    """The job with its row locked until the caller's transaction ends; teams stay unlocked."""
    return Job.objects.select_for_update(of=("self",)).get(pk=job_id)


@transaction.atomic(savepoint=False)
def move(
    actor: Actor,
    job: Job,
    event: JobEvent,
    *,
    at: datetime,
    note: str = "",
    attempt: int | None = None,
) -> bool:
    """Apply ``event`` to ``job`` if its row is still in the state the caller saw.

    Returns True when this call moved the row (a move to the same state is logged too); False
    when the event is no move from there, or somebody was faster. Callers stop on False.
    """
    seen = JobState(job.state)
    target = MOVES.get((seen, event))
    if target is None:
        return False
    ended_at = at if target in DONE else None
    moved = Job.objects.filter(pk=job.pk, state=seen).update(state=target, ended_at=ended_at)
    if not moved:
        return False
    _entry(actor, job, event, target, at=at, note=note, attempt=attempt).save(force_insert=True)
    job.state, job.ended_at = target, ended_at
    return True


@transaction.atomic(savepoint=False)
def move_all(
    actor: Actor, jobs: Mapping[Job, int | None], event: JobEvent, *, at: datetime
) -> set[int]:
    """``move`` for many jobs (with their attempts' numbers) to a state that is no end.

    Returns the ids of those that moved. Cost: three statements for each state they are seen in.
    """
    moved: set[int] = set()
    for seen in sorted({JobState(job.state) for job in jobs}):
        target = MOVES.get((seen, event))
        if target is None or target in DONE:
            continue
        rows = Job.objects.filter(pk__in=[j.pk for j in jobs if j.state == seen], state=seen)
        still = rows.select_for_update(of=("self",)).order_by("pk").values_list("pk", flat=True)
        those = set(still)
        Job.objects.filter(pk__in=those).update(state=target, ended_at=None)
        JobLog.objects.bulk_create(
            _entry(actor, job, event, target, at=at, attempt=attempt)
            for job, attempt in jobs.items()
            if job.pk in those
        )
        for job in jobs:
            if job.pk in those:
                job.state, job.ended_at = target, None
        moved |= those
    return moved


def _entry(
    actor: Actor,
    job: Job,
    event: JobEvent,
    target: JobState,
    *,
    at: datetime,
    note: str = "",
    attempt: int | None,
) -> JobLog:
    """The line of the log for a move of a job, which still says where it came from."""
    return JobLog(
        job=job,
        at=at,
        event=event,
        from_state=job.state,
        to_state=target,
        attempt=attempt,
        actor=actor.name,
        note=note,
    )
