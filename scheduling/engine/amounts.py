"""What the quota ledger speaks of: amounts, ceilings, and on whose account something is held.

Values only; who may hold what is decided in quota.py.
"""

from typing import NamedTuple

from .world import Job, Running


class Amount(NamedTuple):
    """What is asked of a team or held by it; None: not known before the node is."""

    milli: int
    cpus: int | None
    memory_mib: int | None


class Ceiling(NamedTuple):
    """What a team may still take of CPU and memory; None: no limit."""

    cpus: int | None
    memory_mib: int | None


class Who(NamedTuple):
    """On whose account: ``firm`` work cannot be taken back; ``user`` "" is nobody's own."""

    user: str = ""
    firm: bool = False


UNLIMITED = Ceiling(None, None)
SOMEBODY = Who()


def who_of(one: Job | Running) -> Who:
    """Return on whose account a job holds, or would hold, what it has."""
    return Who(one.user, firm=not one.preemptible)
