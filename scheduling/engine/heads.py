"""Whose turn is kept: room on the time line for the first jobs that wait, in each pool.

Owns head reservation, the rule that lets later jobs start only where they do not delay it, and
strict queues. A job that waits for its team's quota, for a time or for a card that never comes
back by any limit is passed over: keeping room for it would help nobody.
Source: EASY backfill; A. Mu'alem and D. Feitelson, IEEE TPDS 12(6), 2001. Depth as in Flux.
"""

from collections import defaultdict
from collections.abc import Iterable

from .cycle import Cycle
from .windows import Slot
from .world import Job, Pool, Reason, reason

# Jobs of a pool for which no limit tells a time and that are tried all the same, in one cycle.
FUTILE = 16


class Heads:
    """The jobs that room is kept for so far, while a cycle goes down the queue."""

    def __init__(self, cycle: Cycle, pools: Iterable[Pool]) -> None:
        self.slots: dict[int, Slot] = {}
        self._cycle = cycle
        self._pools = {pool.id: pool for pool in pools}
        self._kept: dict[int, int] = defaultdict(int)
        self._stuck: dict[int, int] = {}
        self._futile: dict[int, int] = defaultdict(int)

    def behind(self, job: Job) -> list[Reason]:
        """Return why a job may not even be tried: it stands in a strict queue behind another."""
        stuck = self._stuck.get(job.pool, job.id)
        if stuck == job.id:
            return []
        return [reason("Priority", strict=1, ahead=1, jobs=str(stuck))]

    def is_strict(self, pool: int) -> bool:
        """Return whether a pool starts its jobs strictly in order."""
        return pool in self._pools and self._pools[pool].strict

    def keep(self, job: Job) -> None:
        """Keep room for a job that was tried in vain, if it is one of the first.

        Cost: a search over the nodes, for as many jobs of a pool as its depth says.
        """
        pool = self._pools.get(job.pool) or Pool(job.pool)
        if job.id in self._cycle.handover.kept:
            # Its cards are pledged already; only a strict queue has to stand behind it.
            if pool.strict:
                self._stuck.setdefault(pool.id, job.id)
            return
        if not self._wanted(pool) or not self._cycle.waits_for_room(job):
            return
        if pool.strict:
            self._stuck[pool.id] = job.id
            return
        slot = self._cycle.when(job)
        if slot is None or slot.start_us <= self._cycle.now_us:
            self._futile[pool.id] += 1
            return
        self._kept[pool.id] += 1
        self.slots[job.id] = slot
        self._cycle.promise(job, slot)

    def _wanted(self, pool: Pool) -> bool:
        """Return whether room is still to be kept, or order to be held, for a job of the pool."""
        if pool.strict:
            return pool.id not in self._stuck
        return self._kept[pool.id] != pool.depth and self._futile[pool.id] < FUTILE
