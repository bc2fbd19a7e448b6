"""Who is next. Owns the order of the queue; everything that speaks of order uses it.

Never looks at capacity. Priority class first; inside a class whoever has waited too long, then
teams within their GPU-hours before those above them, then the fair tree, then submission.
"""

from collections.abc import Iterable
from itertools import groupby

from .budgets import Overdrawn
from .fair import Fair
from .world import Job, World


def in_order(world: World) -> list[Job]:
    """Return the waiting jobs in the order in which a cycle tries them.

    Cost: O(n log n + n x depth x log teams).
    """
    starved = _starved(world)
    overdrawn = Overdrawn(world)
    turns = {job: (-job.priority, overdrawn(job)) for job in world.jobs if job not in starved}
    fair = Fair(world.teams, world.spent)
    line = sorted(starved, key=lambda job: (job.submitted_us, job.id))
    for _, jobs in groupby(sorted(turns, key=turns.__getitem__), key=turns.__getitem__):
        line += fair.line(jobs)
    return line


def _starved(world: World) -> frozenset[Job]:
    """Return, of each user, the job that waits longest if it has waited too long.

    One of each at a time: who submits a thousand jobs and waits does not block everybody.
    """
    if not world.starves_us:
        return frozenset()
    first: dict[tuple[int, str], Job] = {}
    since = world.now_us - world.starves_us
    for job in _oldest(world.jobs):
        if max(job.submitted_us, job.eligible_us) < since:
            first.setdefault((job.team, job.user), job)
    return frozenset(first.values())


def _oldest(jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (job.submitted_us, job.id))
