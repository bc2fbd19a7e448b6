"""May a team book this? How far ahead, how long, how many at once, how many GPU-hours a week.

Raises AgainstRule with the rule and its numbers. The rules are rows (BookingRule): the nearest up
the tree counts, then the one for everybody, then the defaults of the model.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from .errors import AgainstRule
from .models import BookingRule, Reservation, Team

WEEK = timedelta(days=7)


def rule_of(team: Team) -> BookingRule:
    """The rule that counts for a team; an unsaved one with the defaults if there is no row."""
    rules = {rule.team_id: rule for rule in BookingRule.objects.all()}
    parents = dict(Team.objects.values_list("pk", "parent_id")) if any(rules) else {}
    link: int | None = team.pk
    for _ in range(len(parents)):
        if link is None or link in rules:
            break
        link = parents.get(link)
    return rules.get(link) or rules.get(None) or BookingRule()


def check(row: Reservation, rule: BookingRule, now: datetime) -> None:
    """Raise AgainstRule if a booking (new, or as it is to become) breaks a rule. Two queries."""
    _check_times(row, rule, now)
    if rule.open_at_once is not None:
        mine = Reservation.objects.filter(team=row.team, state__in=Reservation.LIVE)
        others = mine.exclude(pk=row.pk).count()
        if others >= rule.open_at_once:
            raise AgainstRule(
                f"{row.team} has {others} open reservations, and {rule.open_at_once} are allowed.",
                next_step="Give one back or cancel one, then book.",
            )
    if rule.gpu_hours_a_week is not None:
        _check_week(row, rule.gpu_hours_a_week)


def _check_times(row: Reservation, rule: BookingRule, now: datetime) -> None:
    length = row.end_at - row.start_at
    if rule.length_s is not None and length > timedelta(seconds=rule.length_s):
        most = span(timedelta(seconds=rule.length_s))
        raise AgainstRule(
            f"{span(length)} is asked, and {row.team} may book at most {most} at a time.",
            next_step=f"Book until {utc(row.start_at + timedelta(seconds=rule.length_s))} or less.",
            fields={"end": f"A reservation lasts {most} at most."},
        )
    if rule.ahead_s is not None and row.end_at > now + timedelta(seconds=rule.ahead_s):
        last = now + timedelta(seconds=rule.ahead_s)
        raise AgainstRule(
            f"It would end on {utc(row.end_at)}, and {row.team} may book "
            f"{span(timedelta(seconds=rule.ahead_s))} ahead.",
            next_step=f"Book until {utc(last)} or less, or ask later.",
            fields={"end": f"The last moment that can be booked now is {utc(last)}."},
        )


def _check_week(row: Reservation, most: int) -> None:
    """Weeks run from Monday, 00:00 UTC; a booking counts in the weeks it lies in."""
    rows = Reservation.objects.filter(
        team=row.team, kind=Reservation.Kind.USE, end_at__gt=_monday(row.start_at)
    ).exclude(state=Reservation.State.CANCELLED)
    slots = [(o.start_at, o.end_at, o.gpus) for o in rows.exclude(pk=row.pk)]
    monday = _monday(row.start_at)
    while monday < row.end_at:
        others = sum(_hours(s, e, n, monday) for s, e, n in slots)
        mine = _hours(row.start_at, row.end_at, row.gpus, monday)
        if others + mine > most:
            left = max(most - others, 0)
            raise AgainstRule(
                f"{mine:.4g} GPU-hours are asked in the week from {monday:%-d %b}, and {row.team} "
                f"has {left:.4g} of {most} left.",
                next_step="Book fewer cards, a shorter slot, or a slot of another week.",
            )
        monday += WEEK


def _hours(start: datetime, end: datetime, gpus: int, monday: datetime) -> float:
    inside = min(end, monday + WEEK) - max(start, monday)
    return max(inside.total_seconds(), 0) / 3600 * gpus


def _monday(at: datetime) -> datetime:
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def span(length: timedelta) -> str:
    """ "14 d", "4 h 30 min", "20 s"."""
    minutes, seconds = divmod(int(length.total_seconds()), 60)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    told = " ".join(f"{count} {unit}" for count, unit in parts if count)
    return told or f"{seconds} s"


def utc(at: datetime) -> str:
    """ "Thu 3 Dec 2026, 14:00 UTC": what sentences say of a moment; rounded up to the minute."""
    at = at.astimezone(UTC)
    if at.second or at.microsecond:
        at = at.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return f"{at:%a %-d %b %Y, %H:%M} UTC"


def described(numbers: Mapping[str, int]) -> str:
    """Cards by model: "8 × H100", "4 × A100 and 2 × L40S"."""
    return " and ".join(f"{count} × {model or 'GPU'}" for model, count in sorted(numbers.items()))
