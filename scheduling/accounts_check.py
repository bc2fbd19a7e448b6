"""Do usage and promises add up? What was charged to each part and team, pledges, bookings.

Part of ``ledger_check``, which says when and prints. Reads only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Min, Q, Sum
from django.db.models.functions import TruncMonth

from .models import Part, Pledge, PledgeCard, Reservation, ReservationCard, UsageEntry, UsageSum
from .states import JobState

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two accounts that differ: the row, what differs with numbers, what to do."""

    row: str
    cause: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.row}: {self.cause} {self.next_step}"


def usage() -> Iterator[Difference]:
    """Each part that is accounted for was charged for its whole life, and the sums add up."""
    yield from _parts()
    entries = UsageEntry.objects.annotate(month=TruncMonth("until_at")).order_by()
    added = {
        (month.date(), team, user, model): milli_s
        for month, team, user, model, milli_s in entries.values_list(
            "month", "team", "user", "gpu_model"
        ).annotate(Sum("milli_s"))
    }
    sums = {
        (row.month, row.team_id, row.user_id, row.gpu_model): row.milli_s
        for row in UsageSum.objects.all()
    }
    for key in sorted({*added, *sums}, key=str):
        if added.get(key, 0) != sums.get(key, 0):
            month, team, user, model = key
            yield Difference(
                f"usage of team {team}, user {user}, {model or 'any model'}, {month:%Y-%m}",
                f"its sum says {sums.get(key, 0)} milli-GPU-s, its entries {added.get(key, 0)}.",
                "Report it: budget and fair order read the sum.",
            )


def _parts() -> Iterator[Difference]:
    held = (
        Part.objects.filter(accounted=True, gone_at__isnull=False, leases__isnull=False)
        .order_by()
        .values_list("pk", "gone_at")
        .annotate(milli=Sum("leases__milli"), began=Min("leases__taken_at"))
    )
    charged = dict(
        UsageEntry.objects.filter(kind=UsageEntry.Kind.USE, part__isnull=False)
        .order_by()
        .values_list("part")
        .annotate(Sum("milli_s"))
    )
    for part, gone_at, milli, began in held:
        due = milli * max(0, (gone_at - began) // SECOND)
        if charged.get(part, 0) != due:
            yield Difference(
                f"part {part}",
                f"it is charged {charged.get(part, 0)} milli-GPU-s for a life of {due}.",
                "Report it; its entries are in the usage table.",
            )


def promises() -> Iterator[Difference]:
    """Pledges are of jobs that wait; the cards of a pledge and of a booking live as long as it."""
    live = Pledge.objects.filter(ended_at__isnull=True).select_related("job")
    for pledge in live.exclude(job__state=JobState.PENDING).order_by("pk"):
        cause = f"it is live and its job {pledge.job_id} is {pledge.job.state}."
        yield Difference(f"pledge {pledge.pk}", cause, "Wait for the next cycle, or report it.")
    odd = Q(ended_at__isnull=True, part__pledge__ended_at__isnull=False) | Q(
        ended_at__isnull=False, part__pledge__ended_at__isnull=True
    )
    for card in PledgeCard.objects.filter(odd).order_by("pk"):
        yield Difference(
            f"pledged card {card.pk}", "it does not live as long as its pledge.", "Report it."
        )
    booked = ReservationCard.objects.select_related("reservation")
    over = Q(live=True) & ~Q(reservation__state__in=Reservation.LIVE)
    for row in booked.filter(over).order_by("pk"):
        cause = f"it is kept though its reservation is {row.reservation.state}."
        yield Difference(
            f"card {row.card_id} of reservation {row.reservation_id}", cause, "Report it."
        )
