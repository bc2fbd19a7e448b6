"""GPU-hours of a month: is a team through with what it has?

Owns what being over means: hard, nothing starts; soft, others go first. Running work is left alone.
"""

from collections.abc import Iterator

from .tree import Tree
from .world import Job, Limit, Reason, World, reason


def is_over(limit: Limit) -> bool:
    """Return whether a team has used all of its budget for a model."""
    return limit.budget is not None and limit.budget.spent_milli_s >= limit.budget.milli_s


def blocks(limit: Limit, team: str) -> Iterator[Reason]:
    """Yield Budget if the limit's team has used up a hard one."""
    budget = limit.budget
    if budget is None or not budget.hard or not is_over(limit):
        return
    yield reason(
        "Budget",
        team=team,
        team_id=limit.team,
        model=limit.gpu_model,
        budget=budget.milli_s,
        held=budget.spent_milli_s,
        renews_s=budget.renews_us // 1_000_000,
        what="budget",
    )


class Overdrawn:
    """The teams that have used up a soft budget, for the order of the queue."""

    def __init__(self, world: World) -> None:
        self._tree = Tree(world.teams)
        self._over = {
            (one.team, one.gpu_model)
            for one in world.limits
            if is_over(one) and one.budget is not None and not one.budget.hard
        }

    def __call__(self, job: Job) -> bool:
        """Return whether the job's team, or one above it, has: of its model or of all together."""
        if not self._over:
            return False
        models = {"", job.gpu_model}
        return any((t, model) in self._over for t in self._tree.chain(job.team) for model in models)
