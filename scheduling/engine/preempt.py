"""Whose cards are taken for a job that may preempt or is owed: the least set of victims, or none.

Nobody is asked to leave unless the job has a place on what is then free, found by the search that
places jobs. The set is never larger than needed: without any one of its victims the job would not
fit. Of sets within the pool's bounds the cheapest found is taken; up to ``EXACT`` candidates it is
the cheapest there is.
Sources: growing and putting back is Kueue's scheme (reverse pass); branch and bound, A. Land and
A. Doig, Econometrica 28(3), 1960.
"""

from dataclasses import dataclass, replace

from .asking import ORDERS, narrowed
from .cycle import Cycle
from .trial import Trial
from .victims import Victim, Victims
from .world import Eviction, Job, Pledge, Pool, Reason, World, reason

EXACT = 12
# What may be looked at in one cycle: a job's turn costs SEARCH and every claim that runs.
BUDGET = 20_000
SEARCH = 500


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may be taken at once: jobs, and GPUs."""

    victims: int
    gpus: int

    def hold(self, chosen: list[Victim]) -> bool:
        """Return whether a set of victims is within the bounds."""
        return len(chosen) <= self.victims and sum(v.gpus for v in chosen) <= self.gpus


class Hunt:
    """The pledges and evictions of one cycle."""

    def __init__(self, cycle: Cycle, world: World) -> None:
        self.evictions: list[Eviction] = []
        self.pledges: list[Pledge] = []
        self._cycle = cycle
        self._world = world
        self._victims: Victims | None = None
        self._lent = bool(world.running) and any(one.nominal_milli for one in world.limits)
        self._left = BUDGET
        self._failed: dict[tuple[object, ...], Reason | None] = {}
        self._wide: dict[int, Reason] = {}

    def may(self, job: Job) -> bool:
        """Return whether a job may have others stopped: by its class, or for what it is owed."""
        return job.may_preempt or (
            self._lent
            and any(
                self._cycle.ledger.is_owed(job.team, model, job.gpus * 1000)
                for model in self._cycle.stock.models(job)
            )
        )

    def go(self, job: Job) -> None:
        """Look for victims for a job that has no place, and pledge it what they leave.

        Cost: O(running claims), a hundred or so searches for a place, and with up to EXACT
        candidates at most 2 ** EXACT of them. As often in a cycle as BUDGET allows, at least
        once; jobs that ask for the same and would evict the same are tried once.
        """
        if job.id in self._cycle.handover.kept or not self._cycle.open(job):
            return
        victims = self._victims = self._victims or Victims(self._world)
        again = job.id if job.id in victims.known else 0
        key = (self._cycle.shape(job), job.team, job.priority, job.may_preempt, again)
        if key not in self._failed and self._left > 0:
            self._left -= SEARCH + len(self._world.running)
            why = self._try(job, victims)
            if job.id in self._cycle.handover.kept:
                return
            self._failed[key] = why
        if (why := self._failed.get(key)) is not None:
            self._wide[job.id] = why

    def reasons(self, job: Job) -> list[Reason]:
        """Return what kept victims from being asked: PreemptionTooWide, or nothing."""
        return [self._wide[job.id]] if job.id in self._wide else []

    def _try(self, job: Job, victims: Victims) -> Reason | None:
        trial = Trial(self._cycle, job)
        candidates = narrowed(trial, victims.of(job, trial.borrows))
        chosen, why = _chosen(trial, candidates, _bounds(job, victims.pool(job.pool)))
        found = None
        if chosen is not None:
            for victim in chosen:
                trial.lend(victim)
            found = trial.find()
        trial.close(candidates)
        if chosen is not None and found is not None:
            victims.asked(chosen)
            self._pledge(job, chosen, Pledge(job.id, *found))
        return why

    def _pledge(self, job: Job, chosen: list[Victim], pledge: Pledge) -> None:
        for victim in chosen:
            why = Eviction(victim.job, victim.attempt, job.id, victim.why, victim.cost_us)
            self.evictions.append(why)
            for claim in victim.parts:
                leaves_us = self._cycle.now_us + claim.grace_us
                self._cycle.handover.leave(replace(claim, leaving=True, leaves_us=leaves_us))
        self._cycle.handover.keep(job, pledge)
        self.pledges.append(pledge)


def _bounds(job: Job, pool: Pool) -> Bounds:
    return Bounds(pool.max_victims, job.gpus * pool.max_evicted_percent // 100)


def _chosen(
    trial: Trial, candidates: list[Victim], bounds: Bounds
) -> tuple[list[Victim] | None, Reason | None]:
    """Return the victims, none lent any more: [] when what leaves is enough, None when none help.

    The reason is PreemptionTooWide when only sets beyond the bounds would help.
    """
    if trial.find():
        return [], None
    orders = [_allowed(trial, order(trial, candidates)) for order in ORDERS]
    sets = [found for order in orders if (found := _grown(trial, order))]
    if not sets:
        return None, None
    within = [found for found in sets if bounds.hold(found)]
    best = min(within, key=_price, default=None)
    if len(candidates) <= EXACT:
        best = _Exact(trial, candidates, bounds, best).best
    return best, None if best else _too_wide(sets, bounds, trial.job)


def _allowed(trial: Trial, order: list[Victim]) -> list[Victim]:
    """Leave out who may not be taken from their teams, with those before them gone."""
    kept = [victim for victim in order if trial.lend_if_allowed(victim)]
    for victim in kept:
        trial.recall(victim)
    return kept


def _grown(trial: Trial, order: list[Victim]) -> list[Victim] | None:
    """Return a set without which nothing fits and of which none can be spared; None if none does.

    More victims never make less room, so the shortest run of the order that suffices is found by
    halving; then, dearest first, everybody who is not needed is put back.
    """
    low, high, lent = 0, len(order), 0
    while low < high or lent != high:
        middle = (low + high) // 2 if low < high else high
        lent = _lend_first(trial, order, lent, middle)
        if trial.find():
            high = middle
        elif middle == len(order):
            _lend_first(trial, order, lent, 0)
            return None
        else:
            low = middle + 1
    chosen = order[:high]
    for victim in sorted(chosen, key=Victim.key, reverse=True):
        trial.recall(victim)
        if trial.find():
            chosen.remove(victim)
        else:
            trial.lend(victim)
    for victim in chosen:
        trial.recall(victim)
    return chosen


def _lend_first(trial: Trial, order: list[Victim], lent: int, count: int) -> int:
    """Lend exactly the first ``count`` of an order, of which the first ``lent`` are lent."""
    for victim in order[lent:count]:
        trial.lend(victim)
    for victim in order[count:lent]:
        trial.recall(victim)
    return count


class _Exact:
    """All sets of few candidates, cheap ones first; what cannot be the best is not looked at."""

    def __init__(
        self, trial: Trial, candidates: list[Victim], bounds: Bounds, best: list[Victim] | None
    ) -> None:
        self.best = best
        self._trial = trial
        self._candidates = candidates
        self._bounds = bounds
        self._look([], 0)

    def _look(self, chosen: list[Victim], first: int) -> None:
        for i in range(first, len(self._candidates)):
            victim = self._candidates[i]
            more = [*chosen, victim]
            if self.best is not None and _price(more) >= _price(self.best):
                # Candidates come cheapest first, so the rest would not be cheaper.
                return
            if not self._bounds.hold(more):
                continue
            self._trial.lend(victim)
            if self._trial.find() and self._are_allowed(more):
                self.best = more
            elif self._could_do(i + 1):
                self._look(more, i + 1)
            self._trial.recall(victim)

    def _are_allowed(self, chosen: list[Victim]) -> bool:
        """Return whether a set (all lent), small ones first, takes no more than was borrowed."""
        for victim in chosen:
            self._trial.recall(victim)
        order = sorted(chosen, key=lambda victim: (victim.gpus, victim.key()))
        allowed = len(_allowed(self._trial, order)) == len(chosen)
        for victim in chosen:
            self._trial.lend(victim)
        return allowed

    def _could_do(self, first: int) -> bool:
        """Return whether all the rest, beside who is lent already, would make room."""
        rest = self._candidates[first:]
        for victim in rest:
            self._trial.lend(victim)
        enough = self._trial.find() is not None
        for victim in rest:
            self._trial.recall(victim)
        return enough


def _price(chosen: list[Victim]) -> tuple[int, int, list[tuple[int, int, int, int]]]:
    """Return the sort key of a set: cost, then how many, then who would be asked first."""
    return (sum(v.cost_us for v in chosen), len(chosen), sorted(v.key() for v in chosen))


def _too_wide(sets: list[list[Victim]], bounds: Bounds, job: Job) -> Reason:
    victims = min(len(found) for found in sets)
    gpus = min(sum(victim.gpus for victim in found) for found in sets)
    return reason(
        "PreemptionTooWide",
        victims=victims,
        most_victims=bounds.victims,
        gpus=gpus,
        most_gpus=bounds.gpus,
        asked=job.gpus,
    )
