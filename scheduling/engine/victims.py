"""Who may be made to leave for whom, what that costs, and who is asked first.

By priority: lower classes that may be preempted. By reclaim: work that may be taken back, of teams
that hold more than their nominal, for a team that is owed; of whatever priority.

Owns protection (never too young, too often or just evicted, never what may not be preempted) and
the one order of victims: cheapest first, then the lowest class, then the youngest by submission,
which is the order of the queue turned round, so that a victim never overtakes who it left for.
Looks at no free card: preempt.py does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .world import Job, Pool, Running, World

# What a start costs beside the work that is lost: loading, warming up, on each GPU.
RESTART_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Victim:
    """A running attempt that may be evicted: its claims on all nodes, and the price in GPU-time."""

    attempt: int
    job: int
    why: str
    parts: tuple[Running, ...]
    gpus: int
    cost_us: int

    def key(self) -> tuple[int, int, int, int]:
        """Return the sort key of the order in which victims are asked."""
        first = self.parts[0]
        return (self.cost_us, first.priority, -first.submitted_us, -self.job)


class Victims:
    """The attempts that run in a world, by pool."""

    def __init__(self, world: World) -> None:
        """Group the claims by attempt. Cost: O(running claims)."""
        self._now_us = world.now_us
        self._pools = {pool.id: pool for pool in world.pools}
        pool_of = {node.id: node.pool for node in world.nodes}
        grouped: dict[int, list[Running]] = defaultdict(list)
        for claim in world.running:
            # What runs in a booking has its cards by that; they are for nobody outside of it.
            stays = not claim.leaving and not claim.booked
            if stays and claim.attempt and claim.node in pool_of:
                grouped[claim.attempt].append(claim)
        self._by_pool: dict[int, list[tuple[Running, ...]]] = defaultdict(list)
        for _, parts in sorted(grouped.items()):
            parts.sort(key=lambda one: one.node)
            self._by_pool[pool_of[parts[0].node]].append(tuple(parts))
        self._asked: set[int] = set()
        # Nobody leaves twice for the same job: so evictions come to an end whatever the rules.
        self.known = frozenset(by for claim in world.running for by in claim.evicted_by)

    def pool(self, id: int) -> Pool:
        """Return a pool's rules."""
        return self._pools.get(id) or Pool(id)

    def asked(self, victims: Iterable[Victim]) -> None:
        """Leave out victims from now on: they are asked to leave in this cycle."""
        self._asked.update(victim.attempt for victim in victims)

    def of(self, job: Job, borrows: Callable[[Running], bool]) -> list[Victim]:
        """Return who may be evicted for a job, in order; ``borrows``: from the job's team.

        Cost: O(running claims of its pool).
        """
        pool, found = self.pool(job.pool), []
        for parts in self._by_pool.get(job.pool, ()):
            why = "preempt" if job.may_preempt and parts[0].priority < job.priority else ""
            if job.id in parts[0].evicted_by or not self._may_go(parts, pool):
                continue
            if why or borrows(parts[0]):
                found.append(self._victim(parts, why or "reclaim"))
        return sorted(found, key=Victim.key)

    def _may_go(self, parts: tuple[Running, ...], pool: Pool) -> bool:
        one = parts[0]
        return one.attempt not in self._asked and one.preemptible and not self._spared(one, pool)

    def _spared(self, one: Running, pool: Pool) -> bool:
        if self._now_us - one.since_us < one.min_runtime_us:
            return True
        if pool.max_evictions and one.evictions >= pool.max_evictions:
            return True
        return bool(one.evictions) and self._now_us - one.evicted_us < pool.cooldown_us

    def _victim(self, parts: tuple[Running, ...], why: str) -> Victim:
        gpus = sum(len(part.gpus) for part in parts)
        return Victim(
            parts[0].attempt, parts[0].job, why, parts, gpus, cost_us(parts, self._now_us)
        )


def cost_us(parts: Iterable[Running], now_us: int) -> int:
    """Return what an eviction costs: GPUs x (time since the last saved state + a restart), in us.

    Time is charged from ``saved_us``, the last complete checkpoint, else from the start.
    """
    return sum(
        len(part.gpus) * (max(now_us - max(part.saved_us, part.since_us), 0) + RESTART_US)
        for part in parts
    )
