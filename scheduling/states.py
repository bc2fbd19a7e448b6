"""The states of a job and the events that move it: one table, pure data.

``scheduling.transitions.move`` is the only writer; docs/job-lifecycle.md draws the table and a
test compares the two. A pair that is not in MOVES is not a move: the event changes nothing.
"""

from enum import StrEnum


class JobState(StrEnum):
    PENDING = "PENDING"
    HELD = "HELD"
    PLACED = "PLACED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    CLEANING = "CLEANING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"


class JobEvent(StrEnum):
    SUBMIT = "submit"
    HOLD = "hold"
    RELEASE = "release"
    PLACE = "place"
    WITHDRAW = "withdraw"
    BEGIN = "begin"
    START = "start"
    REFUSE = "refuse"
    STOP = "stop"
    NODE_DEAD = "node_dead"
    RANK_FAILED = "rank_failed"
    GONE = "gone"
    CANCEL = "cancel"
    COMPLETE = "complete"
    FAIL = "fail"
    TIME_OUT = "time_out"
    END_CANCELLED = "end_cancelled"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    AGAIN = "again"
    GIVE_UP = "give_up"


class StopReason(StrEnum):
    """Why an attempt was asked to leave. A stronger one replaces a weaker one, never back."""

    CANCEL = "cancel"
    TIME_LIMIT = "time_limit"
    FAULT = "fault"
    CONTENTION = "contention"
    DRAIN = "drain"
    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    WITHDRAW = "withdraw"


S, E, R = JobState, JobEvent, StopReason

STRENGTH: dict[StopReason, int] = {
    R.CANCEL: 7,
    R.TIME_LIMIT: 6,
    R.FAULT: 5,
    R.CONTENTION: 4,
    R.DRAIN: 3,
    R.PREEMPT: 2,
    R.RECLAIM: 2,
    R.WITHDRAW: 1,
}

MOVES: dict[tuple[JobState, JobEvent], JobState] = {
    (S.PENDING, E.HOLD): S.HELD,
    (S.PENDING, E.PLACE): S.PLACED,
    (S.PENDING, E.CANCEL): S.CANCELLED,
    (S.HELD, E.RELEASE): S.PENDING,
    (S.HELD, E.CANCEL): S.CANCELLED,
    (S.PLACED, E.BEGIN): S.STARTING,
    (S.PLACED, E.WITHDRAW): S.PENDING,
    (S.PLACED, E.CANCEL): S.CANCELLED,
    (S.STARTING, E.START): S.RUNNING,
    (S.STARTING, E.REFUSE): S.STOPPING,
    (S.STARTING, E.STOP): S.STOPPING,
    (S.STARTING, E.NODE_DEAD): S.STOPPING,
    (S.STARTING, E.GONE): S.CLEANING,
    (S.RUNNING, E.RANK_FAILED): S.STOPPING,
    (S.RUNNING, E.STOP): S.STOPPING,
    (S.RUNNING, E.NODE_DEAD): S.STOPPING,
    (S.RUNNING, E.GONE): S.CLEANING,
    (S.STOPPING, E.STOP): S.STOPPING,
    (S.STOPPING, E.GONE): S.CLEANING,
    (S.CLEANING, E.CANCEL): S.CLEANING,
    (S.CLEANING, E.COMPLETE): S.COMPLETED,
    (S.CLEANING, E.FAIL): S.FAILED,
    (S.CLEANING, E.TIME_OUT): S.TIMEOUT,
    (S.CLEANING, E.END_CANCELLED): S.CANCELLED,
    (S.CLEANING, E.OUT_OF_MEMORY): S.OUT_OF_MEMORY,
    (S.CLEANING, E.NODE_FAIL): S.NODE_FAIL,
    (S.CLEANING, E.AGAIN): S.PENDING,
    (S.CLEANING, E.GIVE_UP): S.HELD,
}

WAITING = frozenset({S.PENDING, S.HELD})
CHARGED = frozenset({S.PLACED, S.STARTING, S.RUNNING, S.STOPPING})
LIVE = CHARGED | {S.CLEANING}
DONE = frozenset({S.COMPLETED, S.FAILED, S.TIMEOUT, S.CANCELLED, S.OUT_OF_MEMORY, S.NODE_FAIL})
