"""``bench explain``: is every reason and every way that is told true, in random worlds?

For each waiting job of each world the changes its reasons name are made, and it must start; each
single change that the engine offers is made alone, and it must start. The engine is asked
directly: no portal, no database.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from scheduling.engine.plan import plan
from scheduling.engine.ways import ask
from scheduling.engine.world import Waiting, World

from . import figures
from .mending import CODES, may_then_preempt, starts_once_mended, starts_with
from .worlds import carried_out, world_of

EACH_AT_LEAST = 20
NAMED = 20


class Tally:
    """What was told, what of it was true, and which worlds to look at again."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.true: Counter[str] = Counter()
        self.ways: Counter[str] = Counter()
        self.ways_true: Counter[str] = Counter()
        self.unnamed = 0
        self.wrong: list[str] = []

    def note(self, true: bool, what: str, seed: int, job: int, *, way: bool = False) -> None:
        """Count one thing that was told."""
        told, right = (self.ways, self.ways_true) if way else (self.reasons, self.true)
        told[what] += 1
        right[what] += true
        if not true:
            self.wrong.append(f"seed {seed}, job {job}: {what}")

    def told(self, seed: int, waiting: Waiting, true: bool) -> None:
        """Count each reason of a job: all are true together, or none is known to be."""
        for why in waiting.reasons:
            self.unnamed += why.code == "Priority" and not dict(why.numbers).get("jobs")
            self.note(true, why.code, seed, waiting.job)


def run(worlds: int, *, seed: int = 0, say: Callable[[str], None]) -> dict[str, Any]:
    """Look at ``worlds`` worlds from ``seed`` on. Returns the answer of the measurement."""
    tally = Tally()
    for number in range(worlds):
        _look(tally, seed + number, world_of(seed + number))
        if (number + 1) % 100 == 0:
            say(f"{number + 1} of {worlds} worlds, {tally.reasons.total()} reasons")
    asked = tally.reasons.total()
    results = {
        "worlds": worlds,
        "reasons": asked,
        "reasons_true_percent": _percent(tally.true.total(), asked),
        "ways": tally.ways.total(),
        "ways_true_percent": _percent(tally.ways_true.total(), tally.ways.total()),
        "codes": {code: tally.reasons[code] for code in CODES},
        "ways_by_field": dict(sorted(tally.ways.items())),
        "seen_least": min(tally.reasons[code] for code in CODES),
        "priority_without_ids": tally.unnamed,
        "wrong": tally.wrong[:NAMED],
    }
    least = {"reasons_true_percent": 100.0, "ways_true_percent": 100.0, "seen_least": EACH_AT_LEAST}
    return figures.answer("explain", results, most={"priority_without_ids": 0}, least=least)


def _look(tally: Tally, seed: int, day: World) -> None:
    decided = plan(day)
    evening = carried_out(day, decided)
    jobs = {job.id: job for job in day.jobs}
    for waiting in decided.waiting:
        job = jobs[waiting.job]
        true = starts_once_mended(evening, job, waiting)
        if any(why.code == "PreemptionTooWide" for why in waiting.reasons):
            true = true and may_then_preempt(day, job)
        tally.told(seed, waiting, true)
        for way in ask(day, job).ways:
            true = starts_with(day, job, way)
            tally.note(true, way.field, seed, waiting.job, way=True)
    if decided.pledges:
        _look_again(tally, seed, evening)


def _look_again(tally: Tally, seed: int, evening: World) -> None:
    """What those wait for whose victims are on their way is told in the next cycle."""
    decided = plan(evening)
    jobs = {job.id: job for job in evening.jobs}
    for waiting in decided.waiting:
        if waiting.reasons[0].code == "AwaitingPreemption":
            night = carried_out(evening, decided)
            tally.told(seed, waiting, starts_once_mended(night, jobs[waiting.job], waiting))


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 3) if whole else 0.0
