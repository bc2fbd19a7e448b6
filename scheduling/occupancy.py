"""Who holds which cards, and until when at the latest: live leases as claims on the time line.

The only place that says when a claim ends by its limit. Reads one query, writes nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from .engine.world import Running
from .models import Job, Lease

# Time beside the limit and the grace: a start on the nodes, and cards being seen clean.
HANDOVER_S = 30
_FIELDS = (
    "part_id", "card__gpu_id",
    "part__node_id", "part__gone_at", "part__cpus", "part__memory_mib", "part__disk_gib",
    "part__attempt__started_at", "part__attempt__stop_asked_at",
    "part__attempt__job_id", "part__attempt__job__team_id", "part__attempt__job__user_id",
    "part__attempt__job__time_limit_s", "part__attempt__job__grace_s",
    "part__attempt__job__priority_class__preemptible",
)  # fmt: skip


def limit_us(job: Job) -> int:
    """How long a job holds its cards at most, from its placement until they are clean."""
    return (job.time_limit_s + job.grace_s + HANDOVER_S) * 1_000_000


def running(now: datetime) -> tuple[Running, ...]:
    """The claims of all live leases, one for each part. One query."""
    rows: dict[int, list[dict[str, Any]]] = {}
    live = Lease.objects.filter(state__in=[Lease.State.HELD, Lease.State.RELEASING])
    for row in live.order_by("part_id", "card__gpu_id").values(*_FIELDS):
        rows.setdefault(row["part_id"], []).append(row)
    return tuple(_claim(leases, now) for leases in rows.values())


def _claim(leases: Sequence[dict[str, Any]], now: datetime) -> Running:
    part = leases[0]
    gone = part["part__gone_at"] is not None
    return Running(
        job=part["part__attempt__job_id"],
        node=part["part__node_id"],
        gpus=tuple(lease["card__gpu_id"] for lease in leases),
        cpus=0 if gone else part["part__cpus"],
        memory_mib=0 if gone else part["part__memory_mib"],
        disk_gib=0 if gone else part["part__disk_gib"],
        ends_us=int(_end(part, now).timestamp() * 1_000_000),
        team=part["part__attempt__job__team_id"],
        preemptible=part["part__attempt__job__priority_class__preemptible"],
        charged=not gone,
        user=str(part["part__attempt__job__user_id"]),
    )


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
    return end
