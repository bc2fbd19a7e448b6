"""CLEANING to the end: keep the log, decide the outcome, let the job go. Never waits for a card.

The job's processes are gone when this begins. What a short run said along with its end is kept
already; a longer log is fetched (head 64 KiB, tail 1 MiB a rank). A node that is silent now does
not hold its job: after ten seconds the job ends and the log is read from the node when it speaks.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from nodes import clock, hints, runs
from nodes.errors import NodeError, NodeRefused

from . import audit, losses, outcomes, recovery
from .actors import NODES
from .models import Attempt, Job, JobLog, LogPiece, Part
from .states import JobEvent, JobState
from .transitions import locked, move

log = logging.getLogger(__name__)
HEAD_BYTES = 64 * 1024
TAIL_BYTES = 1024 * 1024
PATIENCE = timedelta(seconds=10)


def finish(attempt_id: int) -> None:
    """Fetch what is not kept yet, then end the job. Repeatable."""
    attempt = (
        Attempt.objects.filter(pk=attempt_id, ended_at__isnull=True).select_related("job").first()
    )
    if attempt is None or attempt.job.state != JobState.CLEANING:
        return
    parts = list(Part.objects.filter(attempt=attempt).select_related("node", "attempt"))
    kept = [keep_logs(part) for part in parts]
    at = clock.now()
    late = attempt.gone_at is None or at - attempt.gone_at > PATIENCE
    if all(kept) or late:
        with transaction.atomic():
            job = locked(attempt.job_id)
            attempt.refresh_from_db()
            end(job, attempt, parts, at=at)


def finish_if_kept(job: Job, attempt: Attempt, parts: Sequence[Part], *, at: datetime) -> bool:
    """End the job now if every log of it came along with the reports. No machine is asked.

    ``attempt`` and its ``parts`` are as the rows are, read under the job's lock.
    """
    if any(missing_logs(part) for part in parts):
        return False
    return end(job, attempt, parts, at=at)


def missing_logs(part: Part) -> dict[int, int]:
    """Ranks whose log is not kept, with its size at the end."""
    if not any(part.log_size.values()):
        return {}
    kept = set(LogPiece.objects.filter(attempt_id=part.attempt_id).values_list("rank", flat=True))
    return {int(r): size for r, size in part.log_size.items() if int(r) not in kept and size > 0}


def keep_logs(part: Part) -> bool:
    """Fetch and keep head and tail of each rank's log. False: the node could not be asked.

    Where the node has no trace of the run any more, nothing is what is kept.
    """
    for rank, size in missing_logs(part).items():
        try:
            pieces = _fetch(part, rank, size)
        except NodeRefused as refused:
            log.warning("the log of %s is lost: %s", part.attempt.run_id, refused.cause)
            if refused.kind != "request":
                return False
            pieces = [(0, b"")]
        except NodeError as silent:
            log.info("the log of %s is kept later: %s", part.attempt.run_id, silent.cause)
            return False
        LogPiece.objects.bulk_create(
            [
                LogPiece(attempt_id=part.attempt_id, rank=rank, offset=offset, data=data)
                for offset, data in pieces
            ],
            ignore_conflicts=True,
        )
    return True


def _fetch(part: Part, rank: int, size: int) -> list[tuple[int, bytes]]:
    head = _read(part, rank, 0, min(size, HEAD_BYTES))
    start = max(size - TAIL_BYTES, len(head))
    tail = _read(part, rank, start, size) if start < size else b""
    return [(0, head), *([(start, tail)] if tail else [])]


def _read(part: Part, rank: int, start: int, stop: int) -> bytes:
    data = bytearray()
    while start + len(data) < stop:
        piece, _, _ = runs.tail(part.node, part.attempt.run_id, rank=rank, offset=start + len(data))
        if not piece:
            break
        data += piece
    return bytes(data[: stop - start])


def end(job: Job, attempt: Attempt, parts: Sequence[Part], *, at: datetime) -> bool:
    """Decide the outcome and leave CLEANING. Called under the job's row lock."""
    lost = losses.lost_gpu_s(job.gpus, attempt, parts, at=at)
    what = _decided(job, attempt, parts, lost)
    if what.event == JobEvent.COMPLETE:
        lost = 0
    follows = _follows(job, attempt, what)
    what = follows.what
    if not move(NODES, job, what.event, at=at, note=what.note, attempt=attempt.number):
        return False
    Attempt.objects.filter(pk=attempt.pk).update(
        gone_at=attempt.gone_at,
        ended_at=at,
        outcome=what.outcome,
        note=what.note,
        lost_gpu_s=lost,
    )
    _tell(job, attempt, follows, at=at)
    return True


def _follows(job: Job, attempt: Attempt, what: outcomes.Outcome) -> recovery.Next:
    """Is it tried again? The earlier attempts are read only where that may be."""
    if what.event not in (JobEvent.AGAIN, JobEvent.FAIL) or not job.requeue:
        return recovery.Next(what)
    released = JobLog.objects.filter(job=job, event=JobEvent.RELEASE).aggregate(at=Max("at"))["at"]
    earlier = Attempt.objects.filter(job=job, number__lt=attempt.number).order_by("-number")
    if released:
        earlier = earlier.filter(placed_at__gt=released)
    most = settings.GANGWAY_MAX_ATTEMPTS
    return recovery.after(what, attempt, list(earlier[:most]), requeue=job.requeue, most=most)


def _decided(
    job: Job, attempt: Attempt, parts: Sequence[Part], lost: int | None
) -> outcomes.Outcome:
    """The outcome; its note says too, for who was made to leave, what was saved and lost."""
    ends = [
        outcomes.PartEnd(
            first_rank=part.first_rank,
            end=part.end,
            exit_code=part.exit_code,
            exit_signal=part.exit_signal,
            failed_rank=part.failed_rank,
            exit_before_term=part.exit_before_term,
            oom=part.oom,
            refused=part.refusal is not None,
        )
        for part in parts
    ]
    what = outcomes.decide(
        ends,
        stop_reason=attempt.stop_reason,
        goal=attempt.goal,
        stop_note=attempt.stop_note,
    )
    if what.outcome not in _MADE_TO_LEAVE:
        return what
    note = what.note or what.outcome.replace("_", " ")
    note = losses.sentence(attempt, parts, job.grace_s, lost, note=note)
    return replace(what, note=note)


_MADE_TO_LEAVE = ("preempted", "reclaimed", "drained", "contention", "card_failed", "time_limit")


def _tell(job: Job, attempt: Attempt, follows: recovery.Next, *, at: datetime) -> None:
    """What follows an end: what the system did to the work is noted, who waits again is seen."""
    what = follows.what
    if what.event not in (JobEvent.COMPLETE, JobEvent.FAIL):
        audit.note(
            NODES,
            str(what.event),
            f"job {job.pk}",
            at=at,
            team_id=job.team_id,
            reason=what.note,
            attempt=attempt.number,
        )
    if what.event == JobEvent.GIVE_UP:
        code = "HeldCrashes" if what.outcome in recovery.CRASHES else "HeldAdmin"
        told = [{"code": code, "numbers": {"attempts": follows.in_a_row}}]
        Job.objects.filter(pk=job.pk).update(reasons=told)
    if what.event == JobEvent.AGAIN:
        if follows.wait_s:
            eligible_at = at + timedelta(seconds=follows.wait_s)
            Job.objects.filter(pk=job.pk).update(eligible_at=eligible_at)
        hints.cycle_soon(f"job {job.pk} waits again")
