"""What is used is written down: entries for what ended, and every while for what runs.

Only writer of UsageEntry and of its sums, also of what ``credits`` gives back. A part is charged
from its placement until its processes are gone, whole seconds at a time; what is written is never
written again, so that any number of calls add up to the same. Decides nothing.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Min, Q, Sum

from .engine.decay import decayed
from .engine.fair import CHARGED_S
from .engine.world import Spent
from .leases import charged
from .models import Part, RecentUse, UsageEntry, UsageSum

BATCH = 500
SECOND = timedelta(seconds=1)


@transaction.atomic
def account(now: datetime) -> int:
    """Write what parts that ended, or run for a period since, have used. Returns how many entries.

    At most BATCH parts at once: the next call goes on. Cost: a handful of queries.
    """
    ended = Q(gone_at__isnull=False)
    due = now - timedelta(seconds=settings.GANGWAY_USAGE_PERIOD_S)
    long = Q(accounted_until__lt=due) | Q(accounted_until=None, attempt__placed_at__lt=due)
    parts = list(
        Part.objects.filter(ended | long, accounted=False)
        .select_related("attempt__job")
        .select_for_update(of=("self",), skip_locked=True)
        .order_by("pk")[:BATCH]
    )
    if not parts:
        return 0
    entries = [entry for entry in map(_Accounts(parts).entry, parts, [now] * len(parts)) if entry]
    write(entries, now)
    Part.objects.bulk_update(parts, ["accounted", "accounted_until"])
    return len(entries)


def write(entries: Iterable[UsageEntry], now: datetime) -> None:
    """Add entries and bring the sums up to date. The caller's transaction."""
    entries = UsageEntry.objects.bulk_create(entries)
    _sum_up(entries, now)


class _Accounts:
    """Milli-GPU, model and beginning of some parts. One query."""

    def __init__(self, parts: Iterable[Part]) -> None:
        rows = (
            Part.objects.filter(pk__in=[part.pk for part in parts], leases__isnull=False)
            .order_by()
            .values_list("pk")
            .annotate(
                Sum("leases__milli"), Min("leases__taken_at"), Min("leases__card__gpu__model")
            )
        )
        self._of = {pk: (milli, began, model) for pk, milli, began, model in rows}

    def entry(self, part: Part, now: datetime) -> UsageEntry | None:
        """What a part is to be charged since the last time; marks how far it is accounted."""
        part.accounted = part.gone_at is not None
        if part.pk not in self._of:
            return None
        milli, began, model = self._of[part.pk]
        since = part.accounted_until or began
        until = part.gone_at or began + (now - began) // SECOND * SECOND
        seconds = (until - began) // SECOND - (since - began) // SECOND
        if seconds <= 0:
            return None
        part.accounted_until = until
        job = part.attempt.job
        return UsageEntry(
            team_id=job.team_id,
            user_id=job.user_id,
            job=job,
            part=part,
            gpu_model=model,
            milli_s=milli * seconds,
            from_at=since,
            until_at=until,
        )


def _sum_up(entries: Iterable[UsageEntry], now: datetime) -> None:
    months: dict[tuple[date, int, int, str], int] = defaultdict(int)
    recent: dict[tuple[int, int], int] = defaultdict(int)
    for one in entries:
        months[month_of(one.until_at), one.team_id, one.user_id, one.gpu_model] += one.milli_s
        age_s = int((now - one.until_at).total_seconds())
        recent[one.team_id, one.user_id] += decayed(one.milli_s, age_s, _half_life_s())
    # In one order, so that two that sum up at once never wait for each other in a ring.
    for (month, team, user, model), milli_s in sorted(months.items()):
        row, _ = UsageSum.objects.select_for_update().get_or_create(
            month=month, team_id=team, user_id=user, gpu_model=model
        )
        row.milli_s += milli_s
        row.save(update_fields=["milli_s"])
    for (team, user), milli_s in sorted(recent.items()):
        use, _ = RecentUse.objects.select_for_update().get_or_create(
            team_id=team, user_id=user, defaults={"as_of": now}
        )
        use.milli_s, use.as_of = max(0, _left(use, now) + milli_s), now
        use.save(update_fields=["milli_s", "as_of"])


def spent(now: datetime) -> tuple[Spent, ...]:
    """What everybody used of late, with what runs now and is not written yet. Two queries.

    Who was just let in is charged an hour at once, so that a burst cannot outrun the accounts.
    """
    used: dict[tuple[int, int], int] = defaultdict(int)
    for row in RecentUse.objects.all():
        used[row.team_id, row.user_id] += _left(row, now)
    for team, user, milli, taken_at, until in charged().values_list(
        "part__attempt__job__team_id", "part__attempt__job__user_id", "milli",
        "taken_at", "part__accounted_until",
    ):  # fmt: skip
        used[team, user] += milli * _open_s(taken_at, until, now)
    return tuple(Spent(team, str(user), left) for (team, user), left in sorted(used.items()))


def this_month(now: datetime) -> dict[tuple[int, str], int]:
    """Milli-GPU-seconds of the month so far by (team, model), with what runs now. Two queries."""
    used: dict[tuple[int, str], int] = defaultdict(int)
    rows = UsageSum.objects.filter(month=month_of(now)).order_by()
    for team, model, milli_s in rows.values_list("team_id", "gpu_model").annotate(Sum("milli_s")):
        used[team, model] += milli_s
    for team, model, milli, taken_at, until in charged().values_list(
        "part__attempt__job__team_id", "card__gpu__model", "milli",
        "taken_at", "part__accounted_until",
    ):  # fmt: skip
        since = max(until or taken_at, datetime(now.year, now.month, 1, tzinfo=now.tzinfo))
        used[team, model] += milli * max(0, (now - since) // SECOND)
    return dict(used)


def month_of(at: datetime) -> date:
    """The first day of a moment's month."""
    return date(at.year, at.month, 1)


def _open_s(taken_at: datetime, until: datetime | None, now: datetime) -> int:
    if until is not None:
        return max(0, (now - until) // SECOND)
    return max(CHARGED_S, (now - taken_at) // SECOND)


def _left(row: RecentUse, now: datetime) -> int:
    return decayed(row.milli_s, int((now - row.as_of).total_seconds()), _half_life_s())


def _half_life_s() -> int:
    return int(settings.GANGWAY_USAGE_HALF_LIFE_S)
