"""When a waiting job is thought to start, as kept on its row: rounded to a minute, with hysteresis.

A prediction that moves by little is not written again: every cycle thinks of every waiting job, and
a page that flickers by seconds says nothing. Nothing is ever decided by a prediction.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from .engine.world import Waiting
from .models import Job

MINUTE_US = 60_000_000
# What a job that waits no more, or not as it did, forgets of its waiting.
FORGOTTEN: dict[str, Any] = {
    "reasons": [],
    "position": None,
    "start_from": None,
    "start_by": None,
    "start_unsure": "",
}
# A move of less than this share of the time left is not told.
SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Prediction:
    """From when by the limits that are declared, and by when as the queue stands.

    ``unsure``: why there is no ``by``: unknown, quota, never; empty when there is one.
    """

    start_from: datetime | None = None
    start_by: datetime | None = None
    unsure: str = ""


def of(waiting: Waiting) -> Prediction:
    """What the engine foretold, in whole minutes: from rounded down, by rounded up."""
    return Prediction(
        _minute(waiting.from_us, up=False), _minute(waiting.by_us, up=True), waiting.unsure
    )


def kept(job: Job) -> Prediction:
    """What a job's row says."""
    return Prediction(job.start_from, job.start_by, job.start_unsure)


def settled(old: Prediction | None, new: Prediction, *, now: datetime) -> Prediction:
    """The old one as long as it says about the same, else the new one."""
    if old is None or old.unsure != new.unsure:
        return new
    same = _near(old.start_from, new.start_from, now) and _near(old.start_by, new.start_by, now)
    return old if same else new


def _near(old: datetime | None, new: datetime | None, now: datetime) -> bool:
    if old is None or new is None:
        return old is new
    # What has passed without a start was wrong, however near it is.
    if old < now and new >= now:
        return False
    return abs(new - old) <= max(timedelta(minutes=1), SHARE * (new - now))


def _minute(at_us: int | None, *, up: bool) -> datetime | None:
    if at_us is None:
        return None
    whole = -(-at_us // MINUTE_US) if up else at_us // MINUTE_US
    return datetime.fromtimestamp(whole * 60, UTC)
