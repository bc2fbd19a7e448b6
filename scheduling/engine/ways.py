"""What one job is told when it asks: does it start now, who is ahead, what single change helps.

Pure, above the plan: goes down the queue as a cycle does, up to the job's turn, and asks there. So
what is kept for those ahead counts, and what is said would come true in the next cycle. A new way
round is one more generator in ``_WAYS``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .fit import splits
from .plan import Turns
from .shape import limit_of
from .world import Job, World


@dataclass(frozen=True, slots=True)
class Way:
    """A change of one field with which a job would start now: its name and its new value.

    ``limit_us`` is the longest time that does, ``pool`` an id, the others as in an order.
    """

    field: str
    value: int | str


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the job starts as it is, the ids of those ahead for the same cards, the ways."""

    starts: bool
    ahead: tuple[int, ...]
    ways: tuple[Way, ...]


def ask(world: World, job: Job) -> Answer:
    """Answer for a job of the world. Cost: a cycle up to its turn, a search for each change."""
    turns = Turns(world)
    for one in turns.queue:
        if one.id == job.id:
            break
        turns.take(one)
    ahead = tuple(one.id for one in turns.waiting if _rivals(one, job) and turns.wants_room(one))
    if turns.could(job):
        return Answer(True, ahead, ())
    found = [way for ways in _WAYS for way in ways(turns, job)] if splits(job) else []
    return Answer(False, ahead, tuple(found))


def _rivals(one: Job, other: Job) -> bool:
    """Return whether two jobs want the same cards: any wants what one without a model wants."""
    same = not one.gpu_model or not other.gpu_model or one.gpu_model == other.gpu_model
    return one.pool == other.pool and same


def _fewer_cards(turns: Turns, job: Job) -> Iterator[Way]:
    for gpus in range(job.gpus - job.nodes, 0, -job.nodes):
        if turns.could(replace(job, gpus=gpus)):
            yield Way("gpus", gpus)
            return


def _other_models(turns: Turns, job: Job) -> Iterator[Way]:
    if job.gpu_model:
        for model in turns.cycle.stock.models_of(job.pool):
            if model != job.gpu_model and turns.could(replace(job, gpu_model=model)):
                yield Way("gpu_model", model)


def _more_nodes(turns: Turns, job: Job) -> Iterator[Way]:
    for nodes in range(job.nodes + 1, job.gpus + 1):
        if job.gpus % nodes == 0 and turns.could(replace(job, nodes=nodes)):
            yield Way("nodes", nodes)
            return


def _less_time(turns: Turns, job: Job) -> Iterator[Way]:
    """The longest limit with which it ends before what is kept or booked: shorter is easier."""
    now_us = turns.cycle.now_us
    limits = [at - now_us for at in turns.cycle.stock.time.starts() if at > now_us]
    limits = [limit_us for limit_us in limits if limit_us < limit_of(job)]
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        if turns.could(replace(job, limit_us=limits[middle])):
            low = middle + 1
        else:
            high = middle
    if low:
        yield Way("limit_us", limits[low - 1])


def _other_pools(turns: Turns, job: Job) -> Iterator[Way]:
    for pool in turns.cycle.stock.pools():
        if pool != job.pool and turns.could(replace(job, pool=pool)):
            yield Way("pool", pool)


def _anywhere(turns: Turns, job: Job) -> Iterator[Way]:
    if job.level and turns.could(replace(job, level="", required=False)):
        yield Way("topology", "")


_WAYS: tuple[Callable[[Turns, Job], Iterator[Way]], ...] = (
    _fewer_cards,
    _less_time,
    _other_models,
    _more_nodes,
    _other_pools,
    _anywhere,
)
