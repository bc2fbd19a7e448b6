"""Times as people type them, in the zone of this machine: ``tomorrow 9:00``, ``in 10m``, ISO.

An hour that a clock change leaves out or repeats is refused: the portal is never sent a guess.
"""

import re
from datetime import datetime, timedelta

from .errors import Usage

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?\Z")
_YEARS = (2000, 9000)
_IN = re.compile(r"in (?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?\Z")


def moment(text: str, now: datetime | None = None) -> str:
    """A time with its zone for the API; ``now`` stays. Raises Usage with a sentence."""
    typed = " ".join(text.lower().split())
    if typed == "now":
        return typed
    here = now or datetime.now().astimezone()
    ahead = _IN.match(typed)
    if ahead and typed != "in ":
        days, hours, minutes = (int(part or 0) for part in ahead.groups())
        try:
            return (here + timedelta(days=days, hours=hours, minutes=minutes)).isoformat()
        except (OverflowError, ValueError):
            raise _unknown(text) from None
    try:
        exact = datetime.fromisoformat(text.strip())
    except ValueError:
        return _on_a_day(typed, text, here)
    if exact.tzinfo is not None:
        return exact.isoformat()
    return _local(exact, text)


def _on_a_day(typed: str, text: str, here: datetime) -> str:
    *day, clock = typed.split(" ")
    match = _CLOCK.match(clock)
    word = " ".join(day)
    if not match or int(match[1]) > 23 or int(match[2] or 0) > 59:
        raise _unknown(text)
    at = here.replace(
        hour=int(match[1]), minute=int(match[2] or 0), second=0, microsecond=0, tzinfo=None
    )
    if word in ("", "today"):
        return _local(at, text)
    if word == "tomorrow":
        return _local(at + timedelta(days=1), text)
    if word[:3] in _DAYS and len(word) in (3, 6, 7, 8, 9):
        days = (_DAYS.index(word[:3]) - here.weekday()) % 7 or 7
        return _local(at + timedelta(days=days), text)
    try:
        date = datetime.fromisoformat(word)
    except ValueError:
        raise _unknown(text) from None
    return _local(date.replace(hour=at.hour, minute=at.minute), text)


def _local(wall: datetime, text: str) -> str:
    """A wall time of this machine with its offset."""
    if not _YEARS[0] <= wall.year <= _YEARS[1]:
        raise Usage(
            f"The year {wall.year} is outside {_YEARS[0]} to {_YEARS[1]}.",
            next_step="Name a moment that can be booked.",
        )
    early, late = wall.replace(fold=0).astimezone(), wall.replace(fold=1).astimezone()
    if early.replace(tzinfo=None) != wall.replace(fold=0):
        raise Usage(
            f"{text!r} does not exist here: the clocks go forward then.",
            next_step="Name another hour, or write it with its offset as 2026-03-29T03:30+02:00.",
        )
    if early.utcoffset() != late.utcoffset():
        raise Usage(
            f"{text!r} happens twice here: the clocks go back then.",
            next_step=f"Write {early.isoformat('T', 'minutes')} or "
            f"{late.isoformat('T', 'minutes')}.",
        )
    return early.isoformat()


def _unknown(text: str) -> Usage:
    return Usage(
        f"{text!r} is not a time.",
        next_step="Write such as 14:30, 'tomorrow 9:00', 'fri 9:00', 'in 10m', '2026-12-03 9:00'.",
    )
