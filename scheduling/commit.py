"""A Plan to rows: each placement whole or not at all, in short transactions under the ledger lock.

A batch stands only if the ledger is where the snapshot read it (else a limit or a claim may have
changed, and the next cycle plans again) and the cycle's lease is still ours. Inside, every
placement has a savepoint: a lost race drops that one and the rest stand.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Max

from nodes import hints
from nodes.models import Gpu, Node

from . import leases, ledger
from .actors import CYCLE
from .control import Fence
from .engine.world import PartPlan, Placement, Waiting
from .models import Attempt, Card, Job, Ledger, Part
from .reasons import stored
from .snapshot import WORKING, Snapshot
from .states import JobEvent, JobState
from .transitions import move

log = logging.getLogger(__name__)
BATCH = 8  # small: the first are started on their nodes while the rest are written
FRONT = 50
_Told = tuple[list[dict[str, Any]], int | None]


class _Stale(Exception):
    """The rows are not what the plan was made of; this placement is dropped."""


def apply(
    placements: Sequence[Placement], *, seen: Snapshot, fence: Fence, now: datetime
) -> list[int]:
    """Commit placements in batches. Returns the ids of the attempts that were placed."""
    placed: list[int] = []
    version = seen.ledger_version
    for batch in _batches(placements):
        with ledger.locked():
            current = Ledger.objects.values_list("version", flat=True).get(pk=1)
            if current != version + 1 or not fence.renew():
                log.info("the ledger moved on; %d placements are planned again", len(batch))
                hints.cycle_soon("the ledger moved on")
                return placed
            version = current
            free = _Free(batch)
            attempts = [done for one in batch if (done := _place(one, free, now=now))]
            placed += attempts
            hints.launch_soon(attempts)
    return placed


def tell(waiting: Sequence[Waiting], *, seen: Snapshot, everybody: bool = True) -> int:
    """Write the reasons and positions that changed. Returns how many rows. One statement.

    Without ``everybody``, only to the first of each queue and to those who were told nothing yet.
    """
    changed = []
    for one in waiting:
        known = seen.told.get(one.job)
        if not everybody and known and known[0] and (one.position or 0) > FRONT:
            continue
        reasons = stored(one.reasons)
        if _told_apart(known, (reasons, one.position)):
            changed.append((one.job, json.dumps(reasons), one.position))
    if changed:
        with connection.cursor() as cursor:
            cursor.execute(_TELL, [*map(list, zip(*changed, strict=True)), JobState.PENDING])
    return len(changed)


# Whole columns at once: a long queue has a new position in every row in every cycle.
_TELL = """
UPDATE scheduling_job AS job SET reasons = new.reasons::jsonb, position = new.position
FROM unnest(%s::bigint[], %s::text[], %s::int[]) AS new (id, reasons, position)
WHERE job.id = new.id AND job.state = %s
"""


def _told_apart(old: _Told | None, new: _Told) -> bool:
    """Do two tellings differ in more than the seconds that a backoff has left?"""
    return old is None or (_timeless(old[0]), old[1]) != (_timeless(new[0]), new[1])


def _timeless(reasons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"code": "Backoff"} if r["code"] == "Backoff" else r for r in reasons]


def _batches(placements: Sequence[Placement]) -> Iterator[Sequence[Placement]]:
    for start in range(0, len(placements), BATCH):
        yield placements[start : start + BATCH]


class _Free:
    """Which nodes of a batch take work and which cards are to be had, read under the lock."""

    def __init__(self, batch: Sequence[Placement]) -> None:
        parts = [part for placement in batch for part in placement.parts]
        nodes = Node.objects.filter(pk__in={part.node for part in parts})
        gpus = Gpu.objects.filter(pk__in={gpu for part in parts for gpu in part.gpus})
        at_work = nodes.filter(
            alarm="", accepts_work=True, liveness=Node.Liveness.UP, health__in=WORKING
        )
        healthy = gpus.filter(
            present=True, health__in=WORKING, foreign_use="", card__quarantined_at=None
        )
        self.nodes = set(at_work.values_list("pk", flat=True))
        self.cards = dict(healthy.values_list("pk", "card"))

    def cards_of(self, planned: PartPlan) -> list[int]:
        """The part's cards. Raises _Stale if they or their node are not to be had any more."""
        if planned.node not in self.nodes:
            raise _Stale("a node takes no work any more")
        if not self.cards.keys() >= set(planned.gpus):
            raise _Stale("a card is not to be had any more")
        return [self.cards[gpu] for gpu in planned.gpus]


def _place(placement: Placement, free: _Free, *, now: datetime) -> int | None:
    """Take the cards and move the job, both or neither. None: somebody was faster."""
    try:
        with transaction.atomic():
            cards = [free.cards_of(planned) for planned in placement.parts]
            jobs = Job.objects.select_for_update(of=("self",)).select_related("pool")
            job = jobs.get(pk=placement.job)
            attempt = _attempt(job, now=now)
            if not move(CYCLE, job, JobEvent.PLACE, at=now, attempt=attempt.number):
                raise _Stale(f"job {job.pk} is {job.state}")
            first_rank = 0
            for node_rank, planned in enumerate(placement.parts):
                part = _part(attempt, planned, node_rank, first_rank, job)
                leases.take(part, cards[node_rank], at=now)
                first_rank += part.ranks
            Job.objects.filter(pk=job.pk).update(reasons=[], position=None, eligible_at=None)
            return attempt.pk
    except (_Stale, IntegrityError, Card.DoesNotExist) as lost:
        log.info("placement of job %s dropped: %s", placement.job, lost)
        return None


def _attempt(job: Job, *, now: datetime) -> Attempt:
    last = Attempt.objects.filter(job=job).aggregate(last=Max("number"))["last"] or 0
    return Attempt.objects.create(job=job, number=last + 1, placed_at=now)


def _part(attempt: Attempt, planned: PartPlan, node_rank: int, first_rank: int, job: Job) -> Part:
    return Part.objects.create(
        attempt=attempt,
        node_id=planned.node,
        node_rank=node_rank,
        first_rank=first_rank,
        ranks=len(planned.gpus),
        cpus=planned.cpus,
        memory_mib=planned.memory_mib,
        disk_gib=planned.disk_gib,
        port=_free_port(planned.node, job),
    )


_FREE_PORT = """
SELECT port FROM generate_series(%s, %s) AS port
WHERE port NOT IN (
    SELECT port FROM scheduling_part WHERE node_id = %s AND gone_at IS NULL
    UNION ALL
    SELECT port FROM (
        SELECT port FROM scheduling_part WHERE node_id = %s ORDER BY id DESC LIMIT 64
    ) AS lately
) ORDER BY port LIMIT 1
"""


def _free_port(node_id: int, job: Job) -> int:
    """The lowest port of the pool's range not used on the node by the live or the last 64 parts."""
    with connection.cursor() as cursor:
        args = [job.pool.port_first, job.pool.port_last, node_id, node_id]
        cursor.execute(_FREE_PORT, args)
        row: Any = cursor.fetchone()
    if row is None:
        raise _Stale(f"no port is free on node {node_id}")
    return int(row[0])
