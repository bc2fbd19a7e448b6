"""How an attempt ended, from what its nodes said and why it was stopped. Pure.

An exit that the node recorded before TERM was sent is the job's own, whatever was asked later;
after TERM the reason decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .states import JobEvent, StopReason


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """The event that ends the job's cleaning, the attempt's outcome, and a sentence."""

    event: JobEvent
    outcome: str
    note: str


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
    if not own and stop_reason == StopReason.WITHDRAW:
        if goal == "again":
            return Outcome(JobEvent.AGAIN, "withdrawn", stop_note)
        return Outcome(JobEvent.FAIL, "launch_failed", stop_note)
    if not own and stop_reason and goal == "again":
        return Outcome(JobEvent.AGAIN, _BY_REASON[StopReason(stop_reason)], stop_note)
    return _own_end(parts)


_BY_REASON = {
    StopReason.FAULT: "card_failed",
    StopReason.DRAIN: "drained",
    StopReason.PREEMPT: "preempted",
    StopReason.RECLAIM: "reclaimed",
}


def _own_end(parts: Sequence[PartEnd]) -> Outcome:
    if any(part.oom for part in parts):
        return Outcome(JobEvent.OUT_OF_MEMORY, "out_of_memory", "It ran out of memory.")
    if any(part.end == "unsupervised" for part in parts):
        note = "The node lost sight of the run; how it ended is unknown."
        return Outcome(JobEvent.FAIL, "unsupervised", note)
    failed = [part for part in parts if part.exit_code != 0 or part.exit_signal]
    # The rank that failed by itself, not those that were stopped because of it.
    first = min(failed, key=lambda part: (not part.exit_before_term, part.first_rank), default=None)
    if first is None:
        return Outcome(JobEvent.COMPLETE, "completed", "It ended with exit code 0.")
    return Outcome(JobEvent.FAIL, "failed", _failure(first))


def _failure(part: PartEnd) -> str:
    rank = part.first_rank if part.failed_rank is None else part.failed_rank
    if part.exit_signal:
        return f"Rank {rank} was ended by signal {part.exit_signal}."
    if part.exit_code is None:
        return f"Rank {rank} did not start."
    return f"Rank {rank} ended with exit code {part.exit_code}."
