"""What is used is written down once, to the second, and the order of the queue follows it."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import DatabaseError, transaction

from nodes import clock
from scheduling import cycle, snapshot, usage
from scheduling.engine.fair import CHARGED_S
from scheduling.models import Attempt, Lease, Part, RecentUse, UsageEntry, UsageSum
from tests import builders

HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


def ran(user, *, gpus: int, hours: float, until: datetime = NOON) -> Part:
    """A job of a user that ran for some hours until a moment."""
    job = builders.row(user, state="COMPLETED", gpus=gpus, team=user.memberships.first().team)
    began = until - hours * HOUR
    attempt = Attempt.objects.create(job=job, number=1, placed_at=began, gone_at=until)
    node = builders.Node.objects.first()
    part = Part.objects.create(
        attempt=attempt, node=node, ranks=gpus, cpus=1, memory_mib=1, port=29400 + job.pk,
        gone_at=until,
    )  # fmt: skip
    for gpu in node.gpus.all()[:gpus]:
        Lease.objects.create(
            part=part, card=gpu.card, mib=1, taken_at=began, freed_at=until, state="freed"
        )
    return part


@pytest.fixture
def node(shop):
    return builders.node("a")


def test_the_entries_are_a_hand_count_and_are_written_once(alice, bob, node):
    ran(alice, gpus=4, hours=2.5)
    ran(alice, gpus=1, hours=1)
    ran(bob, gpus=8, hours=0.5)

    assert [usage.account(NOON + HOUR) for _ in range(3)] == [3, 0, 0]

    hours = {
        (one.user.username, one.gpu_model): one.milli_s / 3_600_000
        for one in UsageSum.objects.select_related("user")
    }
    assert hours == {("alice", "H100"): 4 * 2.5 + 1, ("bob", "H100"): 4}
    assert sum(UsageEntry.objects.values_list("milli_s", flat=True)) == 15 * 3_600_000


def test_running_work_is_written_every_period_and_adds_up_to_the_whole(alice, node):
    part = ran(alice, gpus=2, hours=10)
    Part.objects.update(gone_at=None)
    Lease.objects.update(freed_at=None, state="held")
    began = NOON - 10 * HOUR
    for minutes in (10, 59, 61, 100, 130, 400):
        usage.account(began + timedelta(minutes=minutes, microseconds=700_000))
    written = UsageEntry.objects.count()
    Part.objects.update(gone_at=began + timedelta(hours=7, seconds=1, microseconds=300_000))
    for _ in range(2):
        usage.account(NOON)

    entries = list(UsageEntry.objects.order_by("id"))
    assert written == 3 and len(entries) == 4
    assert sum(one.milli_s for one in entries) == 2000 * (7 * 3600 + 1)
    assert entries[0].from_at == began
    assert all(a.until_at == b.from_at for a, b in pairwise(entries))
    part.refresh_from_db()
    assert part.accounted


def test_an_entry_is_never_changed_or_removed(alice, node):
    ran(alice, gpus=1, hours=1)
    usage.account(NOON)
    for act in (lambda: UsageEntry.objects.update(milli_s=0), UsageEntry.objects.all().delete):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            act()


def test_use_of_late_is_halved_in_a_week(alice, node):
    ran(alice, gpus=8, hours=10)
    usage.account(NOON)
    week = timedelta(days=7)
    left = [usage.spent(NOON + n * week)[0].milli_s for n in range(3)]
    assert left == [80 * 3_600_000 >> n for n in range(3)]
    ran(alice, gpus=8, hours=1, until=NOON + week)
    usage.account(NOON + week)
    assert RecentUse.objects.get().milli_s == (40 + 8) * 3_600_000


def test_who_was_just_let_in_is_charged_at_once(alice, node):
    builders.job(alice, gpus=4)
    now = clock.now()
    assert usage.spent(now) == ()
    cycle.serve()
    (spent,) = usage.spent(clock.now())
    assert (spent.user, spent.milli_s) == (str(alice.pk), 4000 * CHARGED_S)


def test_the_month_counts_what_runs_and_forgets_what_was_before(alice, node):
    ran(alice, gpus=2, hours=3)
    ran(alice, gpus=1, hours=5, until=datetime(2026, 10, 20, tzinfo=UTC))
    usage.account(NOON)
    team = alice.memberships.get().team_id
    assert usage.this_month(NOON) == {(team, "H100"): 6 * 3_600_000}


def test_the_user_who_used_less_of_late_is_next(alice, carol, node):
    ran(alice, gpus=8, hours=9, until=clock.now() - HOUR)
    usage.account(clock.now())
    first = builders.job(alice, gpus=8)
    second = builders.job(carol, gpus=8)

    cycle.serve()

    for job in (first, second):
        job.refresh_from_db()
    assert (first.state, second.state) == ("PENDING", "PLACED")


def test_the_weight_of_a_team_is_that_of_its_quota_for_all_models(shop):
    vision = shop.teams["vision"]
    builders.Quota.objects.filter(team=vision).update(weight=3)
    builders.Quota.objects.create(team=vision, gpu_model="H100", weight=9)
    builders.Quota.objects.create(team=shop.teams["lab"], gpu_model="H100", weight=5)
    assert {team.name: team.weight for team in snapshot.teams()} == {
        "lab": 5, "vision": 3, "speech": 1
    }  # fmt: skip
