"""A job's log as bytes with true offsets, from its node while it is there, else what was kept.

What was kept of a long log is its head and its tail; a read inside the gap jumps to the tail
and its ``offset`` says so.
"""

from dataclasses import dataclass

from nodes import reads

from .errors import InvalidOrder, NotFound
from .models import Attempt, Job, LogPiece, Part

READ_MAX_BYTES = reads.READ_MAX_BYTES


@dataclass(frozen=True, slots=True)
class LogSlice:
    """``data`` begins at ``offset``; read on at ``next_offset``. ``ended``: nothing will follow."""

    data: bytes
    offset: int
    next_offset: int
    size: int
    ended: bool
    attempt: int | None
    rank: int


def read(
    job: Job,
    *,
    attempt: int | None = None,
    rank: int = 0,
    offset: int = 0,
    limit: int = READ_MAX_BYTES,
) -> LogSlice:
    """Read at most ``limit`` bytes from ``offset`` (negative: from the end).

    Raises NotFound (no such attempt or rank), InvalidOrder (no such place), NodeUnreachable or
    TooManyReaders when the node has it and cannot be read now.
    """
    if rank < 0 or limit < 1:
        raise InvalidOrder("rank starts at 0 and limit at 1.", next_step="Correct the address.")
    chosen = _attempt(job, attempt)
    if chosen is None:
        return LogSlice(b"", 0, 0, 0, job.is_done, None, rank)
    part = _part(chosen, rank)
    kept = list(LogPiece.objects.filter(attempt=chosen, rank=rank).order_by("offset"))
    if kept and (chosen.ended_at or part.settled_at):
        return _from_kept(kept, chosen, rank, offset, limit)
    if part.started_at is None and part.gone_at is not None:
        return LogSlice(b"", 0, 0, 0, True, chosen.number, rank)
    if part.started_at is None:
        return LogSlice(b"", 0, 0, 0, False, chosen.number, rank)
    gone = part.gone_at is not None
    data, at, size = reads.tail(
        part.node, chosen.run_id, rank=rank, offset=offset, limit=limit, fresh=gone
    )
    ended = gone and at + len(data) >= size
    return LogSlice(data, at, at + len(data), size, ended, chosen.number, rank)


def _attempt(job: Job, number: int | None) -> Attempt | None:
    attempts = Attempt.objects.filter(job=job).order_by("-number")
    if number is None:
        return attempts.first()
    found = attempts.filter(number=number).first()
    if found is None:
        raise NotFound(
            f"Job {job.pk} has no attempt {number}.", next_step="Leave attempt out for the last."
        )
    return found


def _part(attempt: Attempt, rank: int) -> Part:
    """The part that writes this rank's log: with per_node launch only first ranks have one."""
    parts = list(attempt.parts.select_related("node").order_by("first_rank"))
    for part in parts:
        if part.first_rank <= rank < part.first_rank + part.ranks:
            return part
    last = max((part.first_rank + part.ranks - 1 for part in parts), default=0)
    raise NotFound(
        f"Attempt {attempt.number} has no rank {rank}.", next_step=f"Its ranks are 0 to {last}."
    )


def _from_kept(
    pieces: list[LogPiece], attempt: Attempt, rank: int, offset: int, limit: int
) -> LogSlice:
    size = max(piece.offset + len(piece.data) for piece in pieces)
    at = max(size + offset, 0) if offset < 0 else min(offset, size)
    for piece in pieces:
        end = piece.offset + len(piece.data)
        if at < end:
            at = max(at, piece.offset)
            data = bytes(piece.data[at - piece.offset : at - piece.offset + limit])
            over = at + len(data) >= size
            return LogSlice(data, at, at + len(data), size, over, attempt.number, rank)
    return LogSlice(b"", size, size, size, True, attempt.number, rank)
