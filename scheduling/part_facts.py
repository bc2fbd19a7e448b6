"""One report applied to one part of an attempt, and what that means for its job.

``parts`` are all parts of the attempt, in rank order, read under the job's row lock. Writes Part
and Attempt, moves the job by ``transitions.move`` and lets cards go by ``leases`` on the node's
word. Each state a node can report is one function here; an unknown one changes nothing.
"""

import base64
import binascii
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nodes import hints

from . import finishing, leases
from .actors import NODES
from .models import Attempt, Job, Lease, LogPiece, Part
from .states import JobEvent, JobState, StopReason
from .stopping import ask_to_stop
from .transitions import move

log = logging.getLogger(__name__)


def apply(
    job: Job, part: Part, parts: Sequence[Part], said: dict[str, Any], *, at: datetime
) -> None:
    """Take one report that is news (its seq is above the part's)."""
    part.seq = said["seq"]
    part.boot_id = str(said.get("boot_id") or part.boot_id)[:64]
    handler = _BY_STATE.get(said["state"])
    if handler is None or part.gone_at is not None:
        part.save(update_fields=["seq", "boot_id"])
        return
    handler(job, part, parts, said, at)


def _prepared(
    job: Job, part: Part, parts: Sequence[Part], said: dict[str, Any], at: datetime
) -> None:
    part.save(update_fields=["seq", "boot_id"])


def _refused(
    job: Job, part: Part, parts: Sequence[Part], said: dict[str, Any], at: datetime
) -> None:
    """A tombstone: it never started here and never will, so its cards were never touched."""
    part.gone_at = at
    part.save(update_fields=["seq", "boot_id", "gone_at"])
    leases.free(part.leases.filter(freed_at__isnull=True), at=at)
    _part_gone(job, part, parts, at)


def _started(
    job: Job, part: Part, parts: Sequence[Part], said: dict[str, Any], at: datetime
) -> None:
    part.started_at = part.started_at or at
    part.save(update_fields=["seq", "boot_id", "started_at"])
    _maybe_running(job, part.attempt, parts, at)


def _ended(job: Job, part: Part, parts: Sequence[Part], said: dict[str, Any], at: datetime) -> None:
    part.started_at = part.started_at or at
    _fill_end(part, said)
    part.gone_at = at
    part.save()
    _maybe_running(job, part.attempt, parts, at)
    _keep_head(part, said)
    leases.release([part.pk], at=at)
    free_clean_cards(part, said.get("cards"), at=at)
    _part_gone(job, part, parts, at)


def _unsupervised(
    job: Job, part: Part, parts: Sequence[Part], said: dict[str, Any], at: datetime
) -> None:
    """The keeper was killed: gone if nothing is alive, else what is left must be stopped."""
    if not said.get("alive"):
        _ended(job, part, parts, {**said, "end": "unsupervised"}, at)
        return
    part.started_at = part.started_at or at
    part.save(update_fields=["seq", "boot_id", "started_at"])
    _maybe_running(job, part.attempt, parts, at)
    note = "The node lost sight of the run; what is left of it is stopped."
    if ask_to_stop(NODES, job, StopReason.FAULT, at=at, note=note):
        Attempt.objects.filter(pk=part.attempt_id).update(goal=Attempt.Goal.END)


_BY_STATE = {
    "prepared": _prepared,
    "refused": _refused,
    "started": _started,
    "ended": _ended,
    "unsupervised": _unsupervised,
}


def _fill_end(part: Part, said: dict[str, Any]) -> None:
    part.end = str(said.get("end") or "exited")[:16]
    part.exit_code = _int(said.get("exit"))
    part.exit_signal = _int(said.get("signal"))
    part.failed_rank = _int(said.get("failed_rank"))
    part.exit_before_term = said.get("exit_before_term") is True
    part.oom = said.get("oom") is True
    ran_s = said.get("ran_s")
    part.ran_s = float(ran_s) if isinstance(ran_s, int | float) else None
    asked_s = said.get("asked_s")
    part.asked_s = float(asked_s) if isinstance(asked_s, int | float) else None
    sizes = said.get("log")
    if isinstance(sizes, dict):
        ranks = {str(part.first_rank + local) for local in range(part.ranks)}
        part.log_size = {k: v for k, v in sizes.items() if k in ranks and isinstance(v, int)}


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**31 else None


def _maybe_running(job: Job, attempt: Attempt, parts: Sequence[Part], at: datetime) -> None:
    """All parts have started: the job runs (and may have ended in the same breath)."""
    if job.state != JobState.STARTING or any(part.started_at is None for part in parts):
        return
    if move(NODES, job, JobEvent.START, at=at, attempt=attempt.number):
        Attempt.objects.filter(pk=attempt.pk).update(started_at=at)
        _stop_for_a_failed_rank(job, attempt, parts, at)


def _part_gone(job: Job, part: Part, parts: Sequence[Part], at: datetime) -> None:
    attempt = part.attempt
    if any(one.gone_at is None for one in parts):
        if job.state == JobState.STOPPING and job.signal_to == Job.SignalTo.RANK0:
            hints.stop_soon(attempt.pk)  # rank 0 may be through: the others are asked now
        _stop_for_a_failed_rank(job, attempt, parts, at)
        return
    if move(NODES, job, JobEvent.GONE, at=at, attempt=attempt.number):
        attempt.gone_at = at
        if not finishing.finish_if_kept(job, attempt, parts, at=at):
            Attempt.objects.filter(pk=attempt.pk).update(gone_at=at)
            hints.finish_soon(attempt.pk)


def _stop_for_a_failed_rank(
    job: Job, attempt: Attempt, parts: Sequence[Part], at: datetime
) -> None:
    """A part of a running gang has failed: the others are stopped, the outcome is that rank's."""
    failed = [p for p in parts if p.gone_at and p.end and (p.exit_code != 0 or p.exit_signal)]
    if not failed or all(p.gone_at for p in parts):
        return
    rank = failed[0].first_rank if failed[0].failed_rank is None else failed[0].failed_rank
    note = f"rank {rank} failed; the others are stopped"
    if move(NODES, job, JobEvent.RANK_FAILED, at=at, note=note, attempt=attempt.number):
        hints.stop_soon(attempt.pk)


def _keep_head(part: Part, said: dict[str, Any]) -> None:
    """The whole log came along when it is short and the only one of the part."""
    if said.get("head") is None or len(part.log_size) != 1:
        return
    try:
        data = base64.b64decode(said["head"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        log.warning("the log of %s came garbled; it is read again", part.attempt.run_id)
        return
    rank = int(next(iter(part.log_size)))
    piece = LogPiece(attempt=part.attempt, rank=rank, offset=0, data=data)
    LogPiece.objects.bulk_create([piece], ignore_conflicts=True)


def free_clean_cards(part: Part, cards: Any, *, at: datetime) -> int:
    """Free the leases whose card the node calls clean. Returns how many."""
    if not isinstance(cards, dict):
        return 0
    clean = [u for u, c in cards.items() if isinstance(c, dict) and c.get("clean") is True]
    ready = part.leases.filter(
        card__gpu__uuid__in=clean, state=Lease.State.RELEASING, freed_at__isnull=True
    )
    return leases.free(ready, at=at)
