"""Who holds which cards, and until when at the latest: live leases as claims on the time line.

The only place that says when a claim ends by its limit. Reads one query, writes nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from .engine.world import Running
from .models import Attempt, Job, Lease, Reservation
from .states import LIVE, JobState

# Time beside the limit and the grace: a start on the nodes, and cards being seen clean.
HANDOVER_S = 30
_FIELDS = (
    "part_id", "card__gpu_id",
    "part__node_id", "part__gone_at", "part__cpus", "part__memory_mib", "part__disk_gib",
    "part__attempt_id", "part__attempt__started_at", "part__attempt__stop_asked_at",
    "part__attempt__saved_at", "part__attempt__job_id", "part__attempt__job__team_id",
    "part__attempt__job__user_id",
    "part__attempt__job__time_limit_s", "part__attempt__job__grace_s",
    "part__attempt__job__state", "part__attempt__job__submitted_at",
    "part__attempt__job__priority_class__value",
    "part__attempt__job__priority_class__preemptible",
    "part__attempt__job__priority_class__min_runtime_s",
    "part__attempt__job__reservation__state", "part__attempt__job__reservation__end_at",
)  # fmt: skip
_STAYS = frozenset({JobState.PLACED, JobState.STARTING, JobState.RUNNING})
_EVICTED = (Attempt.Outcome.PREEMPTED, Attempt.Outcome.RECLAIMED)


def limit_us(job: Job) -> int:
    """How long a job holds its cards at most, from its placement until they are clean."""
    return (job.time_limit_s + job.grace_s + HANDOVER_S) * 1_000_000


def least_us(job: Job) -> int:
    """The least time in which a job is worth starting: a minute, its grace, and the handover."""
    return (60 + job.grace_s + HANDOVER_S) * 1_000_000


def running(now: datetime) -> tuple[Running, ...]:
    """The claims of all live leases, one for each part. Two queries."""
    rows: dict[int, list[dict[str, Any]]] = {}
    live = Lease.objects.filter(state__in=[Lease.State.HELD, Lease.State.RELEASING])
    for row in live.order_by("part_id", "card__gpu_id").values(*_FIELDS):
        rows.setdefault(row["part_id"], []).append(row)
    evicted = _evicted()
    return tuple(_claim(leases, now, evicted) for leases in rows.values())


_Eviction = tuple[int | None, datetime | None]


def _evicted() -> dict[int, list[_Eviction]]:
    """For whom the jobs that run were stopped before, and when, the last of all at the end."""
    found: dict[int, list[_Eviction]] = {}
    ended = Attempt.objects.filter(job__state__in=LIVE, outcome__in=_EVICTED)
    fields = ("job", "stop_by_job", "stop_asked_at")
    for job, by, at in ended.order_by("number").values_list(*fields):
        found.setdefault(job, []).append((by, at))
    return found


def _claim(
    leases: Sequence[dict[str, Any]],
    now: datetime,
    evicted: Mapping[int, Sequence[_Eviction]],
) -> Running:
    part = leases[0]
    before = evicted.get(part["part__attempt__job_id"], ())
    last = before[-1][1] if before else None
    since = part["part__attempt__started_at"] or now
    leaving = part["part__attempt__job__state"] not in _STAYS
    gone = part["part__gone_at"] is not None
    booked = part["part__attempt__job__reservation__state"] in Reservation.LIVE
    return Running(
        job=part["part__attempt__job_id"],
        node=part["part__node_id"],
        gpus=tuple(lease["card__gpu_id"] for lease in leases),
        cpus=0 if gone else part["part__cpus"],
        memory_mib=0 if gone else part["part__memory_mib"],
        disk_gib=0 if gone else part["part__disk_gib"],
        ends_us=_us(_end(part, now)),
        team=part["part__attempt__job__team_id"],
        preemptible=part["part__attempt__job__priority_class__preemptible"] and not booked,
        charged=not gone,
        booked=booked,
        user=str(part["part__attempt__job__user_id"]),
        attempt=part["part__attempt_id"],
        priority=part["part__attempt__job__priority_class__value"],
        submitted_us=_us(part["part__attempt__job__submitted_at"]),
        since_us=_us(since),
        saved_us=_us(part["part__attempt__saved_at"] or since),
        grace_us=part["part__attempt__job__grace_s"] * 1_000_000,
        min_runtime_us=part["part__attempt__job__priority_class__min_runtime_s"] * 1_000_000,
        evictions=len(before),
        evicted_us=_us(last) if last else 0,
        evicted_by=tuple(sorted({by for by, _ in before if by is not None})),
        leaving=leaving or gone,
        leaves_us=0 if gone else _leaves_us(part),
    )


def _leaves_us(part: dict[str, Any]) -> int:
    """The end of the window of an attempt that was asked to leave, else 0."""
    asked_at: datetime | None = part["part__attempt__stop_asked_at"]
    if asked_at is None:
        return 0
    return _us(asked_at + timedelta(seconds=part["part__attempt__job__grace_s"]))


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)


def _end(part: dict[str, Any], now: datetime) -> datetime:
    """A run that has not started yet may take its whole limit from now on."""
    clean = timedelta(seconds=HANDOVER_S)
    gone_at: datetime | None = part["part__gone_at"]
    if gone_at is not None:
        return gone_at + clean
    grace = timedelta(seconds=part["part__attempt__job__grace_s"])
    limit = timedelta(seconds=part["part__attempt__job__time_limit_s"])
    end: datetime = (part["part__attempt__started_at"] or now) + limit + grace + clean
    if part["part__attempt__stop_asked_at"] is not None:
        end = min(end, part["part__attempt__stop_asked_at"] + grace + clean)
    if part["part__attempt__job__reservation__state"] in Reservation.LIVE:
        end = min(end, part["part__attempt__job__reservation__end_at"])
    return end
