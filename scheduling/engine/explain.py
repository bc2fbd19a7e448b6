"""Answers about one job beside the cycle: could it ever run, and what would let it start now.

Pure, above the plan. Gives data; the words are in sentences.py (``sentence`` is passed on here, so
readers need one import). A new way round is one more generator in ``_WAYS``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .cycle import Cycle
from .fit import need_of, short, splits
from .never import never
from .quota import Amount, Ledger
from .sentences import sentence
from .stock import Stock
from .world import Job, Reason, World, reason

__all__ = ["Way", "counterfactual", "ever", "sentence"]


@dataclass(frozen=True, slots=True)
class Way:
    """A change of one field with which a job would start now: its name and its new value."""

    field: str
    value: int | str


def ever(world: World, job: Job) -> Reason | None:
    """Return NeverFits when no state of this inventory could hold the job, else None.

    Every card is taken as free, every node as open, every team as holding nothing; nodes left
    out for the job count. The numbers name the largest that could. Cost: O(cards).
    """
    stock = Stock(world)
    needs = [(model, need_of(job)) for model in stock.models(job)] if splits(job) else []
    too_large = never(stock, job, needs)
    return too_large or _over_limits(world, stock, job)


def counterfactual(world: World, job: Job) -> tuple[Way, ...]:
    """Return the changes, each alone, with which the job would start on what is free now.

    In this order: the most cards that start, other models, the fewest more nodes. Jobs ahead
    are not looked at: they wait because they do not fit. Cost: a search for each number tried.
    """
    if not splits(job):
        return ()
    cycle = Cycle(world)
    return tuple(way for ways in _WAYS for way in ways(cycle, job))


def _over_limits(world: World, stock: Stock, job: Job) -> Reason | None:
    """Say the limit that an empty team would break, if every model the job could get has one."""
    ledger = Ledger(world.teams, world.limits)
    need = need_of(job)
    found: Reason | None = None
    for model in stock.models(job):
        census = stock.shelf(stock.wanted(job, model)).census
        kinds = [kind for kind in census if not short(kind, kind.cards, need)]
        if not kinds:
            continue
        # The least that any of its nodes would take: what is refused here is never a close call.
        cpus = min(need.cpus_on(kind) for kind in kinds) * need.nodes
        memory_mib = min(need.memory_on(kind) for kind in kinds) * need.nodes
        blockers = ledger.blockers(job.team, model, Amount(job.gpus * 1000, cpus, memory_mib))
        if not blockers:
            return None
        found = found or blockers[0]
    return _as_never(found, job) if found else None


def _as_never(limit: Reason, job: Job) -> Reason:
    """Say the most the job could ask for; what others keep of a limit is counted as held."""
    numbers = dict(limit.numbers)
    asked, over = int(numbers["asked"]), int(numbers["held"]) - int(numbers["limit"])
    total = job.gpus * 1000 if numbers["what"] == "gpus" else asked
    told = {name: numbers[name] for name in ("team", "team_id", "model", "unit")}
    return reason(
        "NeverFits",
        **told,
        what="limit",
        of=numbers["what"],
        asked=total,
        largest=max(0, total - asked - over),
    )


def _fewer_cards(cycle: Cycle, job: Job) -> Iterator[Way]:
    for gpus in range(job.gpus - job.nodes, 0, -job.nodes):
        if cycle.find(replace(job, gpus=gpus)):
            yield Way("gpus", gpus)
            return


def _other_models(cycle: Cycle, job: Job) -> Iterator[Way]:
    if job.gpu_model:
        for model in cycle.stock.models_of(job.pool):
            if model != job.gpu_model and cycle.find(replace(job, gpu_model=model)):
                yield Way("gpu_model", model)


def _more_nodes(cycle: Cycle, job: Job) -> Iterator[Way]:
    for nodes in range(job.nodes + 1, job.gpus + 1):
        if job.gpus % nodes == 0 and cycle.find(replace(job, nodes=nodes)):
            yield Way("nodes", nodes)
            return


_WAYS: tuple[Callable[[Cycle, Job], Iterator[Way]], ...] = (
    _fewer_cards,
    _other_models,
    _more_nodes,
)
