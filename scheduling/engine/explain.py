"""Answers about one job beside the cycle: could it ever run, and what would let it start now.

Pure, above the plan. Gives data; the words are in sentences.py. What readers outside the engine
ask is passed on here, so they need one import: ``ever``, ``ask``, ``sentence``.
"""

from .amounts import Amount
from .fit import need_of, short, splits
from .never import never
from .quota import Ledger
from .sentences import sentence
from .stock import Stock
from .ways import Answer, Way, ask
from .world import Job, Reason, World, reason

__all__ = ["Answer", "Way", "ask", "ever", "sentence"]


def ever(world: World, job: Job) -> Reason | None:
    """Return NeverFits when no state of this inventory could hold the job, else None.

    Every card is taken as free, every node as open, every team as holding nothing; nodes left
    out for the job count. The numbers name the largest that could. Cost: O(cards).
    """
    stock = Stock(world)
    needs = [(model, need_of(job)) for model in stock.models(job)] if splits(job) else []
    too_large = never(stock, job, needs)
    return too_large or _over_limits(world, stock, job)


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
