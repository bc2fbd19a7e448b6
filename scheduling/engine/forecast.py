"""When will each waiting job start, if all of them take their whole limit and nobody else comes?

Walks the queue once over the time line as it stands after a cycle: exact windows for the first, up
to a budget of looks at lanes, then the skyline. What it plans binds nobody: a forecast is told,
never acted upon.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from .cycle import Cycle
from .fit import Need
from .heads import Heads
from .hosts import Wanted
from .lanes import FOREVER
from .skyline import Skyline
from .world import Job

# Codes of those who wait for what others of their teams hold.
_SHARES = frozenset(("Budget", "QuotaBorrow", "QuotaLimit", "QuotaNominal", "UserLimit"))
_WAITS = ((frozenset(("Dependency",)), "dependency"), (_SHARES, "quota"))
# Looks at the lane of a node that a cycle spends on exact forecasts.
LOOKS = 12_000


class Start(NamedTuple):
    """From when by the limits that are declared, by when as the queue stands (None: nobody knows).

    ``unsure`` says why there is no ``by_us``: unknown (no limit tells when what it needs comes
    free), quota, dependency or never.
    """

    from_us: int | None
    by_us: int | None
    unsure: str = ""


class Forecast:
    """The forecasts of one cycle. Ask for every waiting job once, in queue order."""

    def __init__(self, cycle: Cycle, heads: Heads, jobs: Iterable[Job]) -> None:
        self._cycle = cycle
        self._heads = heads
        self._strict_us: dict[int, int] = defaultdict(int)
        self._base = Skyline(cycle.stock)
        for job in jobs:
            for wanted, _ in cycle.anywhere(job, cycle.stock.models(job)):
                self._base.look(wanted)

    def of(self, job: Job, codes: set[str]) -> Start:
        """Return when a job starts that waits for reasons of these codes."""
        if "NeverFits" in codes:
            return Start(None, None, "never")
        if job.id in self._cycle.handover.kept:
            leaves_us = max(self._cycle.handover.leaves_us(job.id), self._cycle.now_us)
            return Start(leaves_us, leaves_us)
        return self._walked(job, next((unsure for those, unsure in _WAITS if codes & those), ""))

    def _walked(self, job: Job, waits_for: str) -> Start:
        after_us = max(job.eligible_us, self._cycle.now_us, self._strict_us[job.pool])
        needs = self._cycle.needs(job)
        soonest = [at for pair in needs if (at := self._base.soonest(*pair)) is not None]
        if not soonest:
            return Start(None, None, "unknown")
        from_us = max(after_us, min(soonest))
        if from_us >= FOREVER:
            return Start(None, None, "unknown")
        if waits_for:
            return Start(from_us, None, waits_for)
        by_us = self._planned(job, needs, after_us)
        if self._heads.is_strict(job.pool) and by_us is not None:
            self._strict_us[job.pool] = by_us
        if by_us is None:
            return Start(from_us, None, "unknown")
        return Start(min(from_us, by_us), by_us)

    def _planned(self, job: Job, needs: list[tuple[Wanted, Need]], after_us: int) -> int | None:
        slot = self._heads.slots.get(job.id)
        if slot is not None:
            return slot.start_us
        if self._cycle.windows.looks < LOOKS:
            slot = self._cycle.when(job, after_us)
            if slot is not None:
                self._cycle.fill(job, slot)
            return slot.start_us if slot else None
        return self._base.first(needs, after_us)
