"""How near a job's cards have to lie: which levels it takes now, and what to look at for each.

Owns the ladder island < node < rack < block < anywhere and its climbing with time; spread.py and
fit.py choose the nodes. A job with a level it requires never climbs; one that prefers a level takes
one more after each ``climb_us`` of waiting, and at once where no place of the level could hold it.
"""

from collections.abc import Iterator

from .fit import Gather, need_of, tightest
from .hosts import Wanted
from .outlook import could_ever
from .sites import LEVELS, reached
from .spread import fewest_racks
from .stock import Stock
from .world import Job, PartPlan, Pool, World

ANYWHERE = "any"
LADDER = (*LEVELS, ANYWHERE)
Stage = tuple[Gather, list[Wanted]]


class Levels:
    """The levels that the jobs of one cycle take."""

    def __init__(self, world: World, stock: Stock) -> None:
        self._now_us = world.now_us
        self._stock = stock
        self._climb_us = {pool.id: pool.climb_us for pool in world.pools}
        self._known: dict[Job, tuple[str, ...]] = {}

    def of(self, job: Job) -> tuple[str, ...]:
        """Return the levels a job takes now, the nearest first; never empty.

        What this rests on stays as it is for a whole cycle.
        """
        if job not in self._known:
            self._known[job] = self._levels(job)
        return self._known[job]

    def _levels(self, job: Job) -> tuple[str, ...]:
        if not job.level or (job.nodes == 1 and job.level != "island"):
            return (ANYWHERE,)
        if job.required:
            return (job.level,)
        rungs = LADDER[LADDER.index(job.level) :]
        steps = min(self._climbed(job), len(rungs) - 1)
        while steps < len(rungs) - 1 and not holds(self._stock, job, rungs[steps]):
            steps += 1
        return rungs[: steps + 1]

    def next_us(self, job: Job) -> int:
        """Return the moment at which a job climbs next, 0 for never."""
        if job.required:
            return 0
        return _since_us(job) + (self._climbed(job) + 1) * self._pool_us(job)

    def degraded(self, job: Job, parts: tuple[PartPlan, ...]) -> str:
        """Return the level that a placement reaches if the job prefers a nearer one, else ""."""
        if not job.level:
            return ""
        gpus = {gpu for part in parts for gpu in part.gpus}
        nodes = [self._stock.by_id[part.node].node for part in parts]
        level = reached(nodes, [g.island for n in nodes for g in n.gpus if g.id in gpus])
        return level if LADDER.index(level) > LADDER.index(job.level) else ""

    def _climbed(self, job: Job) -> int:
        waited_us = max(0, self._now_us - _since_us(job))
        climb_us = self._pool_us(job)
        return waited_us // climb_us if climb_us > 0 else len(LADDER)

    def _pool_us(self, job: Job) -> int:
        return self._climb_us.get(job.pool, Pool(job.pool).climb_us)


def _since_us(job: Job) -> int:
    return max(job.submitted_us, job.eligible_us)


def holds(stock: Stock, job: Job, level: str) -> bool:
    """Return whether some place of a level could hold the job if nothing ran there."""
    return any(
        could_ever(stock.shelf(wanted), need_of(job))
        for model in stock.models(job)
        for wanted in places(stock, job, model, level)
    )


def places(stock: Stock, job: Job, model: str, level: str) -> list[Wanted]:
    """Return the kinds of card to look at, each in one place of a level; [] if it has none."""
    base = stock.wanted(job, model)
    if level == "island":
        islands = stock.sites.islands(job.pool) if job.nodes == 1 else []
        return [base._replace(island=island) for island in islands]
    if job.nodes == 1 or level == ANYWHERE:
        return [base]
    if level == "node":
        return []
    sites = stock.sites.racks(job.pool) if level == "rack" else stock.sites.blocks(job.pool)
    return [base._replace(place=place) for place in sites]


def stages(stock: Stock, job: Job, models: list[str], levels: tuple[str, ...]) -> Iterator[Stage]:
    """Yield what to try one after another: of the first stage with a place, the best is taken.

    First with each tensor-parallel group on one island, then without; in each case the nearest
    level first, and one rack before several wherever a job may lie.
    """
    islands = len(stock.sites.islands(job.pool)) > 1
    for unit in (job.tp, 1) if job.tp > 1 and islands else (1,):
        racked = job.nodes > 1 and bool(stock.sites.racks(job.pool))
        near = ("rack",) if racked and levels[0] in ("block", ANYWHERE) else ()
        for level in (*near, *levels):
            wide = racked and level in ("block", ANYWHERE)
            kinds = [w._replace(unit=unit) for m in models for w in places(stock, job, m, level)]
            yield (fewest_racks if wide else tightest), kinds
