"""How an attempt ended, from what its nodes said and why it was stopped. Pure.

An exit that the node recorded before TERM was sent is the job's own, whatever was asked later;
after TERM the reason decides. Owns the exit codes by which a job says what it wants
(docs/job-contract.md). Whether an ended job is tried again is ``recovery``'s question.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .states import JobEvent, StopReason

SAVED_AND_LEFT = 90
RAN_OUT_OF_MEMORY = 91
ASKED_WRONGLY = 92
DO_NOT_REQUEUE = 93
DONE = 94


@dataclass(frozen=True, slots=True)
class PartEnd:
    """How one part ended. ``end``: exited, stopped, time_limit, unsupervised; "" never started."""

    first_rank: int
    end: str
    exit_code: int | None = None
    exit_signal: int | None = None
    failed_rank: int | None = None
    exit_before_term: bool = False
    oom: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The event that ends the job's cleaning, the attempt's outcome, and a sentence.

    ``wish``: by its exit code the job says again or never itself. ``refused``: a node would not
    have it, so that nothing of it ran there.
    """

    event: JobEvent
    outcome: str
    note: str
    wish: str = ""
    refused: bool = False


def decide(parts: Sequence[PartEnd], *, stop_reason: str, goal: str, stop_note: str) -> Outcome:
    """Return what became of an attempt all of whose parts are gone."""
    started = [part for part in parts if part.end]
    own = bool(started) and all(part.exit_before_term for part in started)
    if not own and stop_reason == StopReason.CANCEL:
        return Outcome(JobEvent.END_CANCELLED, "cancelled", stop_note or "Cancelled.")
    if any(part.end == "time_limit" for part in parts) or (
        not own and stop_reason == StopReason.TIME_LIMIT
    ):
        return Outcome(JobEvent.TIME_OUT, "time_limit", "It reached its time limit.")
    if own or not stop_reason:
        return _own_end(parts)
    return _stopped(parts, StopReason(stop_reason), goal, stop_note)


_BY_REASON = {
    StopReason.FAULT: "card_failed",
    StopReason.CONTENTION: "contention",
    StopReason.DRAIN: "drained",
    StopReason.PREEMPT: "preempted",
    StopReason.RECLAIM: "reclaimed",
}


def _stopped(parts: Sequence[PartEnd], reason: StopReason, goal: str, note: str) -> Outcome:
    """Asked to leave: again or the end, unless the job itself says which by its exit code."""
    codes = {part.exit_code for part in parts if part.end}
    if DO_NOT_REQUEUE in codes:
        return _own_end(parts)
    if DONE in codes:
        return Outcome(JobEvent.COMPLETE, "completed", f"It was through (exit code {DONE}).")
    if reason == StopReason.WITHDRAW:
        event = JobEvent.AGAIN if goal == "again" else JobEvent.FAIL
        refused = any(part.refused for part in parts)
        return Outcome(event, "launch_failed", note, refused=refused)
    if goal == "again":
        return Outcome(JobEvent.AGAIN, _BY_REASON[reason], note)
    if any(part.end == "unsupervised" for part in parts):
        return _own_end(parts)
    said = f"{note.rstrip('.') or _BY_REASON[reason]}; it asked not to be run again"
    return Outcome(JobEvent.FAIL, _BY_REASON[reason], f"{said}.")


def _own_end(parts: Sequence[PartEnd]) -> Outcome:
    if any(part.oom or part.exit_code == RAN_OUT_OF_MEMORY for part in parts):
        return Outcome(JobEvent.OUT_OF_MEMORY, "out_of_memory", "It ran out of memory.")
    if any(part.end == "unsupervised" for part in parts):
        note = "The node lost sight of the run; how it ended is unknown."
        return Outcome(JobEvent.FAIL, "unsupervised", note)
    failed = [part for part in parts if part.exit_code != 0 or part.exit_signal]
    # The rank that failed by itself, not those that were stopped because of it.
    first = min(failed, key=lambda part: (not part.exit_before_term, part.first_rank), default=None)
    if first is None:
        return Outcome(JobEvent.COMPLETE, "completed", "It ended with exit code 0.")
    if first.exit_code == DONE:
        return Outcome(JobEvent.COMPLETE, "completed", f"It was through (exit code {DONE}).")
    wish = _WISHES.get(first.exit_code or 0, "")
    return Outcome(JobEvent.FAIL, "failed", _failure(first), wish)


_WISHES = {SAVED_AND_LEFT: "again", ASKED_WRONGLY: "never", DO_NOT_REQUEUE: "never"}
_MEANT = {
    SAVED_AND_LEFT: "it saved and left to be run again",
    ASKED_WRONGLY: "it was asked wrongly and would fail again",
    DO_NOT_REQUEUE: "it asks not to be run again",
}


def _failure(part: PartEnd) -> str:
    rank = part.first_rank if part.failed_rank is None else part.failed_rank
    if part.exit_signal:
        return f"Rank {rank} was ended by signal {part.exit_signal}."
    if part.exit_code is None:
        return f"Rank {rank} did not start."
    meant = _MEANT.get(part.exit_code)
    return f"Rank {rank} ended with exit code {part.exit_code}{f': {meant}' if meant else ''}."
