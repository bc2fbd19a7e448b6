"""One cycle, top to bottom: order the queue, place what fits, say why the rest waits.

Owns the sequence and nothing else: each question is a module of its own. A new step of the cycle
(reservations, preemption) is a line of ``plan`` and a module beside fit.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from .ahead import NAMED, Ahead
from .cycle import Cycle
from .forecast import Forecast
from .heads import Heads
from .order import in_order
from .preempt import Hunt
from .shortage import kept
from .world import Job, Placement, Plan, Reason, Waiting, World, reason


class Turns:
    """A cycle on its way down the queue: each job in turn is placed, or has room kept for it."""

    def __init__(self, world: World) -> None:
        self.cycle = Cycle(world)
        self.heads = Heads(self.cycle, world.pools)
        self.hunt = Hunt(self.cycle, world)
        self.queue = in_order(world)
        self.placements: list[Placement] = []
        self.waiting: list[Job] = []

    def take(self, job: Job) -> None:
        """Let a job have its turn."""
        behind = self.heads.behind(job)
        placement = None if behind else self.cycle.place(job)
        if placement:
            self.placements.append(placement)
            return
        self.waiting.append(job)
        if job.booking:
            return
        if not behind and self.hunt.may(job):
            self.hunt.go(job)
        self.heads.keep(job)

    def could(self, job: Job) -> bool:
        """Return whether a job would start if it were its turn now, taking nothing."""
        return not self.heads.behind(job) and self.cycle.find(job) is not None

    def wants_room(self, job: Job) -> bool:
        """Return whether a job that had its turn waits for nothing but room."""
        return self.cycle.waits_for_room(job)


def plan(world: World) -> Plan:
    """Decide who starts now and where, and why everybody else waits.

    The same world gives the same plan, whatever the order inside its tuples. A job that cannot
    start does not hold up those behind it, unless room is kept for it.

    Cost: O(jobs log jobs + nodes log nodes), O(cards) for each kind of card and labels asked for,
    and for each distinct request a look at the nodes with cards enough.
    """
    turns = Turns(world)
    for job in turns.queue:
        turns.take(job)
    # Reasons come last: they speak of what is left, as the pages show it beside them. Forecasts
    # come after all reasons: they fill the time line with what is only thought.
    told = list(_explained(turns))
    forecast = Forecast(turns.cycle, turns.heads, turns.waiting)
    return Plan(
        tuple(turns.placements),
        tuple(_foretold(forecast, turns.waiting, told)),
        tuple(turns.hunt.evictions),
        tuple(turns.hunt.pledges),
        tuple(turns.cycle.handover.fallen),
    )


def _explained(turns: Turns) -> Iterator[Waiting]:
    """Yield every waiting job, in queue order, with its place and all its blockers."""
    cycle, heads, hunt = turns.cycle, turns.heads, turns.hunt
    positions: Counter[int] = Counter()
    ahead = Ahead()
    for job in turns.waiting:
        positions[job.pool] += 1
        if job.id in cycle.handover.kept:
            yield Waiting(job.id, positions[job.pool], (cycle.handover.awaited(job.id),))
            continue
        delay = [*_backoff(cycle.now_us, job), *_depends(job)]
        if job.booking:
            slot = cycle.in_slot(job)
            told = delay if delay and slot.code == "SlotFull" else [slot]
            yield Waiting(job.id, positions[job.pool], tuple(told))
            continue
        quota, fit = cycle.blockers(job)
        behind = heads.behind(job)
        reasons = [*delay, *quota, *fit]
        if fit and fit[0].code == "NeverFits":
            reasons = [*fit, *delay, *quota]
        elif behind or fit:
            reasons += behind or ([] if kept(fit) else ahead.of(job))
            if not delay and not quota:
                ahead.add(job)
        yield Waiting(job.id, positions[job.pool], (*reasons, *hunt.reasons(job)))


def _foretold(
    forecast: Forecast, jobs: Iterable[Job], told: Iterable[Waiting]
) -> Iterator[Waiting]:
    """Yield what was told of each job with the time at which it is thought to start."""
    for job, waiting in zip(jobs, told, strict=True):
        start = forecast.of(job, {why.code for why in waiting.reasons})
        yield Waiting(job.id, waiting.position, waiting.reasons, *start)


def _backoff(now_us: int, job: Job) -> list[Reason]:
    if job.eligible_us <= now_us:
        return []
    if job.begin_us == job.eligible_us:
        return [reason("BeginTime", at_s=job.begin_us // 1_000_000)]
    return [reason("Backoff", seconds=-(-(job.eligible_us - now_us) // 1_000_000))]


def _depends(job: Job) -> Iterator[Reason]:
    """Yield Dependency for those that have to end before, and for those that ended otherwise."""
    for ids, lost in ((job.after_lost, 1), (job.after, 0)):
        if ids:
            named = ", ".join(str(id) for id in ids[:NAMED])
            yield reason("Dependency", jobs=named, count=len(ids), lost=lost)
