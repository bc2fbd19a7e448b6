"""One batch of placements to rows: attempts, parts, ports and leases, each job whole or not at all.

A batch is written together, statement by statement for all of it. If somebody was faster for one
of it (cancelled the job, took a node out of work), it is undone and written one by one, so that
the lost one is dropped and the rest stand. The ledger lock is the caller's.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import IntegrityError, connection, transaction
from django.db.models import Count, Max, Q, QuerySet

from nodes.models import WORKING, Gpu, Node

from . import leases, pledges
from .actors import CYCLE
from .engine.world import PartPlan, Placement
from .models import Attempt, Card, Job, Part
from .predictions import FORGOTTEN
from .states import JobEvent
from .transitions import move_all

log = logging.getLogger(__name__)


class _Stale(Exception):
    """The rows are not what the plan was made of."""


_LOST = (_Stale, IntegrityError, Card.DoesNotExist)


def place(batch: Sequence[Placement], *, now: datetime) -> list[int]:
    """Take the cards and move the jobs. Returns the ids of the attempts that were made."""
    free = _Free(batch)
    try:
        with transaction.atomic():
            return _write(batch, free, now=now)
    except _LOST as lost:
        if len(batch) == 1:
            log.info("placement of job %s dropped: %s", batch[0].job, lost)
            return []
    return [made for one in batch for made in place([one], now=now)]


class _Free:
    """What of the plan is still to be had: nodes that take work, cards, and ports."""

    def __init__(self, batch: Sequence[Placement]) -> None:
        parts = [part for placement in batch for part in placement.parts]
        nodes = Node.objects.filter(pk__in={part.node for part in parts})
        gpus = Gpu.objects.filter(pk__in={gpu for part in parts for gpu in part.gpus})
        at_work = nodes.filter(
            Node.driver_answers(),
            alarm="",
            accepts_work=True,
            liveness=Node.Liveness.UP,
            health__in=WORKING,
        )
        healthy = gpus.filter(
            present=True, health__in=WORKING, foreign_use="", card__quarantined_at=None
        )
        self.nodes = set(at_work.values_list("pk", flat=True))
        self.cards = dict(healthy.values_list("pk", "card"))
        self._pledged = pledges.holders(self.cards.values())
        self.ports = _ports_in_use({part.node for part in parts})

    def cards_of(self, planned: PartPlan, jobs: Iterable[int]) -> list[int]:
        """The part's cards. Raises _Stale if they or their node are not to be had any more.

        A card pledged to another job than those of the batch is not to be had either.
        """
        if planned.node not in self.nodes:
            raise _Stale("a node takes no work any more")
        if not self.cards.keys() >= set(planned.gpus):
            raise _Stale("a card is not to be had any more")
        cards = [self.cards[gpu] for gpu in planned.gpus]
        if not {self._pledged[card] for card in cards if card in self._pledged} <= set(jobs):
            raise _Stale("a card is pledged to another job")
        return cards

    def port_on(self, node_id: int, job: Job) -> int:
        """The lowest port of the pool's range that is not in use on the node, now taken."""
        used = self.ports.setdefault(node_id, set())
        for port in range(job.pool.port_first, job.pool.port_last + 1):
            if port not in used:
                used.add(port)
                return port
        raise _Stale(f"no port is free on node {node_id}")


# In use: by live parts, and for a while after the end, by the node's last 64.
_PORTS = """
SELECT node.id, part.port FROM unnest(%s::bigint[]) AS node (id), LATERAL (
    SELECT port FROM scheduling_part WHERE node_id = node.id AND gone_at IS NULL
    UNION ALL
    (SELECT port FROM scheduling_part WHERE node_id = node.id ORDER BY id DESC LIMIT 64)
) AS part
"""


def _ports_in_use(node_ids: Iterable[int]) -> dict[int, set[int]]:
    used: dict[int, set[int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_PORTS, [sorted(node_ids)])
        for node_id, port in cursor.fetchall():
            used.setdefault(node_id, set()).add(port)
    return used


def _write(batch: Sequence[Placement], free: _Free, *, now: datetime) -> list[int]:
    """All of the batch. Raises one of _LOST if one of it is not to be had."""
    ids = [placement.job for placement in batch]
    cards = [free.cards_of(part, ids) for placement in batch for part in placement.parts]
    locked = Job.objects.select_for_update(of=("self",)).select_related("pool").order_by("pk")
    jobs = locked.in_bulk(ids)
    if len(jobs) < len(ids):
        raise _Stale("a job is gone")
    attempts = _attempts(batch, now=now)
    numbers = {jobs[attempt.job_id]: attempt.number for attempt in attempts}
    if len(move_all(CYCLE, numbers, JobEvent.PLACE, at=now)) < len(ids):
        raise _Stale("a job does not wait any more")
    parts = Part.objects.bulk_create(
        part
        for placement, attempt in zip(batch, attempts, strict=True)
        for part in _parts(placement, attempt, jobs[placement.job], free)
    )
    leases.take_all(list(zip(parts, cards, strict=True)), at=now)
    pledges.end(ids, pledges.STARTED, at=now)
    Job.objects.filter(pk__in=ids).update(eligible_at=None, **FORGOTTEN)
    return [attempt.pk for attempt in attempts]


def _attempts(batch: Sequence[Placement], *, now: datetime) -> list[Attempt]:
    """A new attempt for each job, which knows what those before it had saved."""
    earlier = Attempt.objects.filter(job__in=[one.job for one in batch]).order_by()
    counted = earlier.values_list("job").annotate(
        last=Max("number"), ran=Count("pk", filter=Q(started_at__isnull=False))
    )
    known = {pk: (number, ran) for pk, number, ran in counted}
    saved = _saved(earlier) if known else {}
    return Attempt.objects.bulk_create(
        Attempt(
            job_id=one.job,
            number=known.get(one.job, (0, 0))[0] + 1,
            restarts=known.get(one.job, (0, 0))[1],
            resumed_step=saved[one.job][0] if one.job in saved else None,
            resumed_path=saved[one.job][1] if one.job in saved else "",
            topology_degraded=one.degraded,
            placed_at=now,
        )
        for one in batch
    )


def _saved(earlier: QuerySet[Attempt]) -> dict[int, tuple[int, str]]:
    """Step and path of each job's last complete checkpoint."""
    with_one = earlier.filter(saved_step__isnull=False).order_by("job", "-number")
    last = with_one.distinct("job").values_list("job", "saved_step", "saved_path")
    return {job: (step, path) for job, step, path in last if step is not None}


def _parts(placement: Placement, attempt: Attempt, job: Job, free: _Free) -> list[Part]:
    parts: list[Part] = []
    for node_rank, planned in enumerate(placement.parts):
        parts.append(
            Part(
                attempt=attempt,
                node_id=planned.node,
                node_rank=node_rank,
                first_rank=sum(part.ranks for part in parts),
                ranks=len(planned.gpus),
                cpus=planned.cpus,
                memory_mib=planned.memory_mib,
                disk_gib=planned.disk_gib,
                port=free.port_on(planned.node, job),
            )
        )
    return parts
