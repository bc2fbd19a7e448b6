"""One cycle, top to bottom: order the queue, place what fits, say why the rest waits.

Owns the sequence and nothing else: each question is a module of its own. A new step of the cycle
(reservations, preemption) is a line of ``plan`` and a module beside fit.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from .ahead import Ahead
from .cycle import Cycle
from .forecast import Forecast
from .heads import Heads
from .order import in_order
from .preempt import Hunt
from .world import Job, Plan, Reason, Waiting, World, reason


def plan(world: World) -> Plan:
    """Decide who starts now and where, and why everybody else waits.

    The same world gives the same plan, whatever the order inside its tuples. A job that cannot
    start does not hold up those behind it.

    Cost: O(jobs log jobs + nodes log nodes), O(cards) for each kind of card and labels asked for,
    and for each distinct request a look at the nodes with cards enough.
    """
    cycle = Cycle(world)
    heads = Heads(cycle, world.pools)
    hunt = Hunt(cycle, world)
    placements, waiting = [], []
    for job in in_order(world.jobs):
        placement = None if heads.behind(job) else cycle.place(job)
        if placement:
            placements.append(placement)
        else:
            waiting.append(job)
            if job.may_preempt and not heads.behind(job):
                hunt.go(job)
            heads.keep(job)
    # Reasons come last: they speak of what is left, as the pages show it beside them. Forecasts
    # come after all reasons: they fill the time line with what is only thought.
    told = list(_explained(cycle, heads, hunt, waiting))
    forecast = Forecast(cycle, heads, waiting)
    return Plan(
        tuple(placements),
        tuple(_foretold(forecast, waiting, told)),
        tuple(hunt.evictions),
        tuple(hunt.pledges),
        tuple(cycle.handover.fallen),
    )


def _explained(cycle: Cycle, heads: Heads, hunt: Hunt, jobs: Iterable[Job]) -> Iterator[Waiting]:
    """Yield every waiting job, in queue order, with its place and all its blockers."""
    positions: Counter[int] = Counter()
    ahead = Ahead()
    for job in jobs:
        positions[job.pool] += 1
        if job.id in cycle.handover.kept:
            yield Waiting(job.id, positions[job.pool], (cycle.handover.awaited(job.id),))
            continue
        delay = _backoff(cycle.now_us, job)
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
        yield replace(waiting, **start._asdict())


def _backoff(now_us: int, job: Job) -> list[Reason]:
    if job.eligible_us <= now_us:
        return []
    return [reason("Backoff", seconds=-(-(job.eligible_us - now_us) // 1_000_000))]


def kept(fit: Iterable[Reason]) -> bool:
    """Return whether some of what a job would take is kept for a job ahead: it says who that is."""
    return any(("kept", 1) in why.numbers for why in fit)
