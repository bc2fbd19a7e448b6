"""What a failed card cost a team is given back: credits, entries of usage below zero.

Owns who is owed what. Only an attempt that was stopped for a card of its own that the rules failed
while it held it: a person's verdict, another node's trouble or a crash earns nothing. Given is what
ran since the last complete checkpoint, never more than twice the interval that the job declared,
or a day, and never more than was charged. What never saved is owed nothing once twice its interval
is over, or at all if it declared none: not to save must not pay. Each part is credited once. Writes
by ``usage`` alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Sum

from nodes.models import HealthChange, Node

from . import audit, usage
from .actors import NODES
from .models import Attempt, Lease, Part, UsageEntry

INTERVALS = 2
MOST_S = 24 * 3600
OWED_FOR = timedelta(days=7)
BATCH = 100


@dataclass(frozen=True, slots=True)
class Cause:
    """The card that failed under an attempt, and the rule that said so."""

    uuid: str
    rule: str
    at: datetime


def seconds(lost_gpu_s: int, gpus: int, interval_s: int | None, *, saved: bool) -> int:
    """Seconds of one card's time that a fault cost an attempt. Pure.

    ``saved``: a complete checkpoint of it was seen.
    """
    lost_s = max(0, lost_gpu_s // max(gpus, 1))
    most = MOST_S if interval_s is None else min(INTERVALS * interval_s, MOST_S)
    if not saved and (interval_s is None or lost_s > most):
        return 0
    return min(lost_s, most)


@transaction.atomic
def give(now: datetime) -> int:
    """Write the credits that are owed. Returns how many entries. Repeatable; one query if none."""
    owed = _owed(now).select_related("job").select_for_update(of=("self",), skip_locked=True)
    given = []
    for attempt in owed.order_by("pk")[:BATCH]:
        cause = _cause(attempt)
        if cause is not None:
            given += _credit(attempt, cause, now)
    usage.write(given, now)
    return len(given)


def _owed(now: datetime) -> QuerySet[Attempt]:
    """Attempts that ended by a card's fault, are charged in full and have no credit yet."""
    parts = Part.objects.filter(attempt=OuterRef("pk"))
    credited = UsageEntry.objects.filter(part__attempt=OuterRef("pk"), kind=UsageEntry.Kind.CREDIT)
    return Attempt.objects.filter(
        Exists(parts.filter(accounted=True)),
        ~Exists(parts.filter(accounted=False)),
        ~Exists(credited),
        outcome=Attempt.Outcome.CARD_FAILED,
        lost_gpu_s__gt=0,
        ended_at__gt=now - OWED_FOR,
    )


def _cause(attempt: Attempt) -> Cause | None:
    """The change that failed a card of the attempt while it had it; by the rules, by nobody."""
    while_held = Q(gpu__card__leases__taken_at__lte=F("at"), at__lte=attempt.ended_at)
    changes = HealthChange.objects.filter(
        while_held,
        gpu__card__leases__part__attempt=attempt,
        now=Node.Health.FAILED,
        actor="",
    )
    first = changes.order_by("at", "pk").values_list("gpu__uuid", "rule", "at").first()
    return Cause(*first) if first else None


def _credit(attempt: Attempt, cause: Cause, now: datetime) -> list[UsageEntry]:
    job = attempt.job
    back_s = seconds(
        attempt.lost_gpu_s or 0,
        job.gpus,
        job.checkpoint_interval_s,
        saved=attempt.saved_at is not None,
    )
    entries = list(_entries(attempt, back_s))
    if entries:
        audit.note(
            NODES, "credit", f"job {job.pk}", at=now, team_id=job.team_id,
            reason=f"{cause.rule} on {cause.uuid}", attempt=attempt.number,
            milli_gpu_s=-sum(entry.milli_s for entry in entries),
        )  # fmt: skip
    return entries


def _entries(attempt: Attempt, back_s: int) -> Iterator[UsageEntry]:
    """One for each part that was charged anything; it is dated as the end of what it gives back."""
    held = Lease.objects.filter(part__attempt=attempt).order_by().values_list("part")
    milli = dict(held.annotate(Sum("milli")))
    used = UsageEntry.objects.filter(part__attempt=attempt, kind=UsageEntry.Kind.USE).order_by()
    charged = used.values("part", "gpu_model", "team", "user").annotate(
        total=Sum("milli_s"), until=Max("until_at")
    )
    for row in charged.order_by("part"):
        back = min(milli.get(row["part"], 0) * back_s, row["total"])
        if back > 0:
            yield UsageEntry(
                team_id=row["team"],
                user_id=row["user"],
                job_id=attempt.job_id,
                part_id=row["part"],
                gpu_model=row["gpu_model"],
                kind=UsageEntry.Kind.CREDIT,
                milli_s=-back,
                from_at=row["until"] - timedelta(seconds=back_s),
                until_at=row["until"],
            )
