"""Rows to a World, in a fixed number of queries. The only place that says what "free" means.

A card is free when it is present, healthy enough, not quarantined, not in foreign use, and no
lease on it is live. Sums of CPU, memory and disk are those of live parts. What is charged to a
team is what its jobs hold until their processes are gone.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Max, Q
from django.db.models.functions import Coalesce

from . import bookings, following, limits, machines, occupancy, pledges, predictions, usage
from .engine import world
from .leases import charged
from .models import ExcludedNode, Job, Ledger, Pool, Team
from .states import JobState


@dataclass(frozen=True, slots=True)
class Told:
    """What a waiting job says so far of why and until when it waits."""

    reasons: list[dict[str, Any]]
    position: int | None
    start: predictions.Prediction


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A World, the ledger's version it was read at, and what the waiting jobs say so far."""

    world: world.World
    ledger_version: int
    told: dict[int, Told]


def take(now: datetime) -> Snapshot:
    """Read everything one cycle may look at: seventeen queries and few more, whatever the size."""
    version = Ledger.objects.values_list("version", flat=True).get(pk=1)
    booked = bookings.live(now)
    jobs, told = _jobs(now, bookings.slots(booked, now))
    return Snapshot(
        world.World(
            now_us=_us(now),
            nodes=machines.nodes(),
            jobs=jobs,
            teams=teams(),
            limits=limits.limits(now),
            uses=_uses(bookings.charged(booked, now)),
            running=occupancy.running(now),
            bookings=bookings.for_engine(booked),
            pools=pools(),
            pledges=pledges.live(),
            spent=usage.spent(now),
            starves_us=settings.GANGWAY_STARVATION_S * 1_000_000,
        ),
        version,
        told,
    )


def inventory(now: datetime) -> world.World:
    """Nodes, teams and limits alone: what a submission is held against. Six queries."""
    held_to = limits.limits(now, budgets=False)
    return world.World(
        now_us=_us(now), nodes=machines.nodes(), jobs=(), teams=teams(), limits=held_to, uses=()
    )


def engine_job(
    job: Job,
    *,
    excluded: frozenset[int] = frozenset(),
    slot: bookings.Slot | None = None,
    waits_for: following.Waits = following.NOTHING,
) -> world.Job:
    """A row (saved or not) as the engine's noun. No query if the priority class is loaded.

    In its ``slot`` it may hold cards up to the end; too near the end it is a job as any other.
    """
    eligible_us, limit_us = _us(job.eligible_at) if job.eligible_at else 0, occupancy.limit_us(job)
    if slot is not None:
        eligible_us = max(eligible_us, slot.start_us)
        limit_us = min(limit_us, slot.end_us - max(slot.start_us, slot.now_us))
    begin_us = _us(job.begin_at) if job.begin_at else 0
    return world.Job(
        id=job.pk or 0,
        team=job.team_id,
        pool=job.pool_id,
        priority=job.priority_class.value,
        submitted_us=_us(job.submitted_at),
        gpus=job.gpus,
        nodes=job.nodes,
        gpu_model=job.gpu_model,
        gpu_memory_mib=job.gpu_memory_mib,
        cpus=job.cpus,
        memory_mib=job.memory_mib,
        disk_gib=job.disk_gib,
        labels=tuple(sorted(job.labels.items())),
        excluded=excluded,
        eligible_us=max(eligible_us, begin_us),
        user=str(job.user_id),
        limit_us=limit_us,
        preemptible=job.priority_class.preemptible,
        may_preempt=job.priority_class.may_preempt,
        booking=slot.id if slot else 0,
        level=job.topology_level,
        required=job.topology_required,
        tp=job.parallelism.get("tp", 1),
        capability=job.gpu_capability,
        begin_us=begin_us,
        after=waits_for[0],
        after_lost=waits_for[1],
    )


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)


def _jobs(
    now: datetime, slots: Mapping[int, bookings.Slot]
) -> tuple[tuple[world.Job, ...], dict[int, Told]]:
    left_out: dict[int, set[int]] = defaultdict(set)
    exclusions = ExcludedNode.objects.filter(until__gt=now, job__state=JobState.PENDING)
    for job_id, node_id in exclusions.values_list("job_id", "node_id"):
        left_out[job_id].add(node_id)
    rows = (
        Job.objects.filter(state=JobState.PENDING)
        .select_related("priority_class")
        .defer("command", "env", "workdir")
        .order_by("id")
    )
    jobs, told = [], {}
    ends = following.ends(rows)
    for row in rows:
        slot = slots.get(row.reservation_id or 0)
        if slot and slot.end_us - slot.now_us < occupancy.least_us(row):
            slot = None
        excluded, waits_for = frozenset(left_out[row.pk]), following.waits_for(row, ends)
        jobs.append(engine_job(row, excluded=excluded, slot=slot, waits_for=waits_for))
        told[row.pk] = Told(row.reasons, row.position, predictions.kept(row))
    return tuple(jobs), told


def pools() -> tuple[world.Pool, ...]:
    """The rules of each pool's queue. One query."""
    return tuple(
        world.Pool(
            row.pk,
            strict=row.strategy == Pool.Strategy.STRICT_FIFO,
            depth=row.backfill_depth,
            max_victims=row.max_victims,
            max_evicted_percent=row.max_evicted_percent,
            cooldown_us=row.eviction_cooldown_s * 1_000_000,
            max_evictions=row.max_evictions,
            climb_us=row.topology_wait_s * 1_000_000,
        )
        for row in Pool.objects.order_by("id")
    )


def teams() -> tuple[world.Team, ...]:
    """The tree of teams, each with the weight of its quota for all models, else the largest."""
    weight = Coalesce(
        Max("quotas__weight", filter=Q(quotas__gpu_model="")), Max("quotas__weight"), 1
    )
    rows = Team.objects.order_by("id").annotate(share=weight)
    return tuple(world.Team(*row) for row in rows.values_list("id", "name", "parent_id", "share"))


def _uses(slots: Mapping[tuple[int, str, int, int], int]) -> tuple[world.Use, ...]:
    """What jobs hold and, for cards whose slot runs now, what is booked: not both."""
    total: dict[tuple[int, str, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    seen: set[int] = set()
    running = {reservation for _, _, _, reservation in slots}
    for (team_id, model, user_id, _), milli in slots.items():
        total[team_id, model, user_id][0] += milli
        total[team_id, model, user_id][3] += milli
    for team_id, model, user_id, milli, part_id, cpus, memory_mib, preemptible, reservation in (
        charged().values_list(
            "part__attempt__job__team_id", "card__gpu__model", "part__attempt__job__user_id",
            "milli", "part_id", "part__cpus", "part__memory_mib",
            "part__attempt__job__priority_class__preemptible",
            "part__attempt__job__reservation_id",
        )
    ):  # fmt: skip
        milli = 0 if reservation in running else milli
        use = total[team_id, model, user_id]
        use[0] += milli
        use[3] += 0 if preemptible else milli
        if part_id not in seen:
            seen.add(part_id)
            use[1] += cpus
            use[2] += memory_mib
    return tuple(
        world.Use(team, model, milli, cpus, memory_mib, firm_milli, str(user))
        for (team, model, user), (milli, cpus, memory_mib, firm_milli) in sorted(total.items())
    )
