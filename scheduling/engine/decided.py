"""What comes out of a decision (``Plan``), its parts and the reasons in it.

Owns frozen values only, in the units of world.py, which passes all of them on: import them there.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartPlan:
    """What one node gives to a job; ``gpus`` are card ids in ascending order."""

    node: int
    gpus: tuple[int, ...]
    cpus: int
    memory_mib: int
    disk_gib: int


@dataclass(frozen=True, slots=True)
class Pledge:
    """Cards of one model promised to a waiting job while those who hold them leave."""

    job: int
    model: str
    parts: tuple[PartPlan, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """A job that starts, with its parts in rank order.

    ``degraded``: its cards lie further apart than it prefers; the level they reach, or "any".
    """

    job: int
    parts: tuple[PartPlan, ...]
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits: a code of ``docs/placement.md`` and its numbers, sorted by name."""

    code: str
    numbers: tuple[tuple[str, int | str], ...] = ()


def reason(code: str, **numbers: int | str) -> Reason:
    """Build a Reason; its numbers are sorted, so equal facts are equal values."""
    return Reason(code, tuple(sorted(numbers.items())))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that does not start: its place among its pool's waiting jobs, and every blocker.

    ``from_us``: not before, by the limits that are declared; ``by_us``: by then as the queue
    stands, if all take their whole limit; None where nobody can tell, and ``unsure`` says why:
    unknown (no limit tells when what it needs comes free), quota, dependency or never.
    """

    job: int
    position: int
    reasons: tuple[Reason, ...]
    from_us: int | None = None
    by_us: int | None = None
    unsure: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """An attempt that has to leave so that job ``by`` can start; ``cost_us`` is GPU-time lost."""

    job: int
    attempt: int
    by: int
    why: str
    cost_us: int


@dataclass(frozen=True, slots=True)
class Fallen:
    """A pledge that ends without a start, and why in words."""

    job: int
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What one cycle decided: who starts where, who waits and why, both in queue order.

    ``pledges`` are the new ones, each with its ``evictions`` if it needs any; ``fallen`` end.
    """

    placements: tuple[Placement, ...]
    waiting: tuple[Waiting, ...]
    evictions: tuple[Eviction, ...] = ()
    pledges: tuple[Pledge, ...] = ()
    fallen: tuple[Fallen, ...] = ()
