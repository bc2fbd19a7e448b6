"""The raw samples of a day: kept with each probe, dropped with their day.

Only writer of HealthSample and of its partitions, one for each day (UTC). What no partition was
made for in time lands in the default one and is deleted from it. Judges nothing.
"""

from datetime import UTC, date, datetime, timedelta

from django.db import connection

from .models import HealthSample, Node
from .readings import Readings

KEEP_FOR = timedelta(days=1)
AHEAD_DAYS = 3
TABLE = HealthSample._meta.db_table
DAY = timedelta(days=1)


def keep(node: Node, readings: Readings, *, at: datetime) -> None:
    """Write down what a probe read. One query; nothing where the driver did not answer."""
    if readings.cards:
        cards = {card.uuid: {**card.facts, "used_mib": card.used_mib} for card in readings.cards}
        HealthSample.objects.create(node=node, at=at, boot_id=readings.boot_id, cards=cards)


def tend(now: datetime) -> None:
    """Make the partitions of the next days, drop those whose whole day is older than a day."""
    today = now.astimezone(UTC).date()
    there = partitions()
    with connection.cursor() as cursor:
        for day in (today + n * DAY for n in range(1, AHEAD_DAYS + 1)):
            if day not in there:
                cursor.execute(
                    f"CREATE TABLE {_name(day)} PARTITION OF {TABLE}"
                    f" FOR VALUES FROM ('{day} 00:00+00') TO ('{day + DAY} 00:00+00')"
                )
        for day in sorted(there):
            if datetime(day.year, day.month, day.day, tzinfo=UTC) + DAY <= now - KEEP_FOR:
                cursor.execute(f"DROP TABLE {_name(day)}")
        cursor.execute(f"DELETE FROM {TABLE}_default WHERE at < %s", [now - KEEP_FOR])  # noqa: S608


def partitions() -> set[date]:
    """The days that have a partition of their own. One query."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass",
            [TABLE],
        )
        names = (str(name).removeprefix(f"{TABLE}_") for (name,) in cursor.fetchall())
        return {date.fromisoformat(name) for name in names if name.isdigit()}


def _name(day: date) -> str:
    return f"{TABLE}_{day:%Y%m%d}"
