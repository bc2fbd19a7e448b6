"""Does a job's window fit, and what would a preemption cost it? Sentences from what it declares
and from what was measured of it.

A window fits that is 1.5 times the 95th percentile of its checkpoint times, within the pool's
bounds. Between two saves a preemption costs half the interval on average, the interval at most,
on every GPU; nothing where it is known to save when asked. Only advice: nothing is refused by it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from .models import Attempt, Job, Part

SAFETY = 1.5
ENOUGH = 4
EARLIER_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Advice:
    """``code`` and ``numbers`` for programs (seconds, GPU-seconds), ``sentence`` for people."""

    code: str
    numbers: dict[str, int]
    sentence: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Of some attempts: how long checkpoints took, how far apart they were, whether on a signal."""

    took_s: tuple[float, ...] = ()
    interval_s: int | None = None
    saves_when_asked: bool = False

    @property
    def p95_s(self) -> float | None:
        """The 95th percentile of the checkpoint times, by the nearest rank."""
        ordered = sorted(self.took_s)
        return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else None


def measure(attempts: Iterable[Attempt]) -> Measured:
    """What attempts (their parts fetched) tell. No query."""
    took: list[float] = []
    gaps: list[float] = []
    asked = False
    for attempt in attempts:
        for part in attempt.parts.all():
            saves = part.progress.get("checkpoints") or []
            took += [one["done_s"] - one["begun_s"] for one in saves if one["begun_s"] is not None]
            times = sorted(one["done_s"] for one in saves)
            gaps += [later - sooner for sooner, later in pairwise(times)]
            asked = asked or _saved_when_asked(attempt, part)
    every_s = round(median(gaps)) if gaps else None
    return Measured(tuple(took), every_s, asked)


def _saved_when_asked(attempt: Attempt, part: Part) -> bool:
    known = attempt.saved_s is not None and part.asked_s is not None
    return known and (attempt.saved_s or 0.0) >= (part.asked_s or 0.0)


def earlier(job: Job) -> list[Attempt]:
    """Attempts of the same command by the same person: what a new job is judged by. Two queries."""
    alike = Attempt.objects.filter(
        job__user=job.user_id, job__team=job.team_id, job__command=job.command
    ).exclude(job=job.pk)
    return list(alike.order_by("-pk").prefetch_related("parts")[:EARLIER_ATTEMPTS])


def of(job: Job) -> list[Advice]:
    """Advice for a job, saved or not, its priority class and pool loaded."""
    own = list(job.attempts.all()) if job.pk else []
    told = measure(own)
    if not told.took_s and not told.saves_when_asked:
        told = measure(earlier(job))
    return [*_window(job, told), *_cost(job, told)]


def _window(job: Job, told: Measured) -> list[Advice]:
    if told.p95_s is None:
        return []
    fits_s = max(math.ceil(told.p95_s * SAFETY), 1)
    suggested_s = min(max(fits_s, job.pool.min_grace_s), job.pool.max_grace_s)
    numbers = {
        "p95_s": math.ceil(told.p95_s),
        "checkpoints": len(told.took_s),
        "grace_s": job.grace_s,
        "suggested_s": suggested_s,
    }
    measured = f"95 of 100 of its checkpoints took up to {told.p95_s:.1f} s"
    if fits_s > job.grace_s:
        step = f"ask for a window of {suggested_s} s"
        if suggested_s < fits_s:
            step += f", the most that pool {job.pool.name} allows, and save faster"
        words = f"{measured}; its window of {job.grace_s} s is short: {step}."
        return [Advice("WindowShort", numbers, words)]
    if job.grace_s > ENOUGH * suggested_s:
        words = f"{measured}; a window of {suggested_s} s is enough, it has {job.grace_s} s."
        return [Advice("WindowLong", numbers, words)]
    return []


def _cost(job: Job, told: Measured) -> list[Advice]:
    interval_s = told.interval_s or job.checkpoint_interval_s
    if told.saves_when_asked:
        words = "It saved when it was asked to: a preemption costs it next to nothing."
        return [Advice("SavesWhenAsked", {}, words)]
    leaves = job.priority_class.preemptible
    if interval_s is None and not leaves:
        return []
    most_s = min(interval_s or job.time_limit_s, job.time_limit_s)
    numbers = {
        "grace_s": job.grace_s,
        "most_s": most_s,
        "mean_s": most_s // 2,
        "most_gpu_s": most_s * job.gpus,
    }
    gpus = f"{job.gpus} GPU{'s' if job.gpus > 1 else ''}"
    lost = f"up to {in_words(most_s)} × {gpus} lost"
    if interval_s is None:
        words = (
            "Nothing is known of its checkpoints: a preemption costs all it has done, "
            f"{lost}. Save now and then, and say how often in checkpoint.interval_s."
        )
        return [Advice("NoCheckpoint", numbers, words)]
    words = (
        f"Saves every {in_words(interval_s)}, window {job.grace_s} s, no save on signal "
        f"seen so far: {lost}, {in_words(most_s // 2)} on average."
    )
    return [Advice("PreemptionCost", numbers | {"interval_s": interval_s}, words)]


def in_words(seconds: int) -> str:
    """ "2 h", "10 min", "1.5 h", "90 s": one unit."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size or seconds % size == 0:
            return f"{seconds / size:.3g} {unit}" if seconds else "0 s"
    return f"{seconds} s"
