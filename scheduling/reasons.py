"""Why a job waits, from rows to sentences and back: codes and numbers are stored, words are not."""

from collections.abc import Iterable
from typing import Any

from .engine.explain import sentence
from .engine.world import Reason
from .models import Job
from .states import JobState


def stored(reasons: tuple[Reason, ...]) -> list[dict[str, Any]]:
    """The JSON of reasons as kept on the job."""
    return [{"code": r.code, "numbers": dict(r.numbers)} for r in reasons]


def read(job: Job) -> list[Reason]:
    """The reasons of a waiting job, blocking first; never empty while it waits."""
    if job.state == JobState.HELD and not job.reasons:
        return [Reason("HeldUser")]
    if job.state == JobState.PENDING and not job.reasons:
        return [Reason("NotEvaluated")]
    return [Reason(r["code"], tuple(sorted(r["numbers"].items()))) for r in job.reasons]


def sentences(job: Job) -> list[str]:
    """One sentence a blocker for a job that waits; an empty list for any other."""
    if job.state not in (JobState.PENDING, JobState.HELD):
        return []
    return [sentence(reason) for reason in read(job)]


def told(found: Iterable[Reason]) -> list[dict[str, Any]]:
    """Reasons with their words: code, numbers, sentence."""
    return [
        {"code": why.code, "numbers": dict(why.numbers), "sentence": sentence(why)} for why in found
    ]
