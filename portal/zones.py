"""The viewer's time zone, and wall times in it. An hour that is none or two is never guessed."""

from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest

COOKIE = "tz"
_YEARS = (2000, 9000)  # at the ends of the calendar a zone leads out of it


@cache
def _known() -> frozenset[str]:
    return frozenset(available_timezones())


def zone_of(request: HttpRequest) -> ZoneInfo:
    """The zone that the browser named in its cookie, else the portal's own."""
    named = request.COOKIES.get(COOKIE, "")
    return ZoneInfo(named if named in _known() else settings.TIME_ZONE)


def named(zone: ZoneInfo, at: datetime) -> str:
    """ "Europe/Berlin, UTC+1"; UTC is UTC."""
    if zone.key == "UTC":
        return zone.key
    minutes = int((at.astimezone(zone).utcoffset() or UTC.utcoffset(None)).total_seconds() // 60)
    hours = f"{abs(minutes) // 60}" + (f":{abs(minutes) % 60:02}" if minutes % 60 else "")
    return f"{zone.key}, UTC{'-' if minutes < 0 else '+'}{hours}"


def from_wall(text: str, zone: ZoneInfo, fold: str = "") -> str:
    """A wall time as the form gives it ("2026-12-03T09:00") as ISO with its offset.

    ``fold`` "0" or "1" chooses the earlier or later of an hour that happens twice. Text that has
    an offset is left as it is. Raises ValueError with a sentence.
    """
    try:
        wall = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a time. Choose a day and an hour.") from None
    if wall.tzinfo is not None:
        return text.strip()
    if not _YEARS[0] <= wall.year <= _YEARS[1]:
        raise ValueError(f"The year {wall.year} is outside {_YEARS[0]} to {_YEARS[1]}.")
    early, late = wall.replace(tzinfo=zone, fold=0), wall.replace(tzinfo=zone, fold=1)
    if early.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
        raise ValueError(
            f"{wall:%H:%M} does not exist on {wall:%-d %b %Y} in {zone.key}: "
            "the clocks go forward then. Choose another hour."
        )
    if early.utcoffset() != late.utcoffset() and fold not in ("0", "1"):
        raise ValueError(
            f"{wall:%H:%M} happens twice on {wall:%-d %b %Y} in {zone.key}: first in "
            f"{early:%Z}, then in {late:%Z}. Choose which."
        )
    return (late if fold == "1" else early).isoformat()


def to_wall(at: datetime, zone: ZoneInfo) -> str:
    """A moment as a form shows it in the zone."""
    return at.astimezone(zone).strftime("%Y-%m-%dT%H:%M")
