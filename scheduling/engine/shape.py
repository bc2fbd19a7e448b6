"""What a cycle reads off a job: what makes two requests equal, what it asks of its team, how long.

Pure and without state; cycle.py keeps what was found for each shape.
"""

from typing import NamedTuple

from .amounts import Amount
from .fit import need_of
from .hosts import Wanted
from .lanes import FOREVER
from .world import Job


class Shape(NamedTuple):
    """What makes two requests equal for one cycle: jobs of one shape share one answer.

    ``team`` is None unless a limit on the team's CPU or RAM takes part in the fit.
    """

    wanted: tuple[Wanted, ...]
    levels: tuple[str, ...]
    tp: int
    gpus: int
    nodes: int
    cpus: int | None
    memory_mib: int | None
    disk_gib: int
    excluded: frozenset[int]
    team: int | None
    booking: int
    keeper: int


def limit_of(job: Job) -> int:
    """Return how long a job holds what it gets at most; FOREVER without a limit."""
    return FOREVER if job.limit_us is None else job.limit_us


def asked_of(job: Job) -> Amount:
    """Return what a job asks of its team; CPU and RAM only where it names them."""
    need = need_of(job)
    cpus = None if need.cpus is None else need.cpus * need.nodes
    memory_mib = None if need.memory_mib is None else need.memory_mib * need.nodes
    return Amount(charged_of(job), cpus, memory_mib)


def charged_of(job: Job) -> int:
    """Return the milli-GPU a job is charged; in a booking they are charged by it already."""
    return 0 if job.booking > 0 else job.gpus * 1000
