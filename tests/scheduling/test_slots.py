"""The life of a slot: clean at the start, its jobs inside, empty at the end, given back unused."""

from datetime import datetime, timedelta

import pytest

from nodes import clock
from nodes.models import Gpu, Node
from scheduling import control, cycle, leases, slots, snapshot
from scheduling.actors import person
from scheduling.errors import InvalidOrder
from scheduling.models import Attempt, Job, Lease, Part, Pool, Reservation
from scheduling.orders import parse
from scheduling.services import reservations
from scheduling.services.jobs import draft
from tests import builders

from .test_reservations import HOUR, book, runs, uuids

MINUTE = timedelta(minutes=1)


@pytest.fixture
def now(db) -> datetime:
    return clock.now().replace(microsecond=0)


@pytest.fixture
def at(monkeypatch):
    """Set the clock that beat and cycle look at."""

    def set_clock(moment: datetime) -> datetime:
        monkeypatch.setattr(clock, "now", lambda: moment)
        return moment

    return set_clock


def stopped(job: Job) -> str:
    return Attempt.objects.filter(job=job).latest("number").stop_reason


def one_cycle() -> list[int]:
    with control.lease() as fence:
        return cycle.run(fence)


def test_a_preemptible_job_on_booked_cards_leaves_when_its_window_is_all_that_is_left(
    alice, now, at
):
    builders.node("a")
    job = runs(alice, ["GPU-a-0"], now, limit=9 * HOUR, priority="low")
    row = book(alice, now, HOUR)
    window = timedelta(seconds=job.grace_s + 30)

    at(row.start_at - window - timedelta(seconds=1))
    slots.tend()
    assert stopped(job) == ""
    at(row.start_at - window)
    slots.tend()
    assert stopped(job) == "reclaim"
    attempt = Attempt.objects.get(job=job)
    assert attempt.goal == "again" and f"reservation {row.pk}" in attempt.stop_note


def test_what_is_on_the_cards_at_the_start_all_the_same_is_asked_to_leave(alice, bob, now, at):
    builders.node("a")
    row = book(alice, now, HOUR)
    job = runs(bob, ["GPU-a-0"], now, team="speech", limit=9 * HOUR)

    at(row.start_at - timedelta(seconds=1))
    slots.tend()
    assert stopped(job) == ""
    at(row.start_at)
    slots.tend()
    assert stopped(job) == "reclaim"


def test_a_job_of_a_slot_that_was_given_back_leaves_before_the_next_slot(alice, bob, now, at):
    builders.node("a")
    row = book(alice, now, timedelta(), HOUR)
    job = runs(alice, uuids(row), now, limit=24 * HOUR)
    Job.objects.filter(pk=job.pk).update(reservation=row)
    after = book(bob, now, HOUR, team="speech")
    reservations.cancel(person(alice), row, at=now + MINUTE)

    window = timedelta(seconds=job.grace_s + 30)
    at(after.start_at - window - timedelta(seconds=1))
    slots.tend()
    assert stopped(job) == ""
    at(after.start_at - window)
    slots.tend()
    assert stopped(job) == "reclaim"


def test_a_job_of_the_slot_starts_in_it_and_is_asked_to_save_before_its_end(alice, now, at):
    builders.node("a", cards=2)
    builders.node("b", cards=2)
    row = book(alice, now, HOUR, HOUR, gpus=2, on=["b"], nodes=1)
    job = builders.job(alice, gpus=2, reservation=row.pk, time_limit_s=9 * 3600)

    at(row.start_at - MINUTE)
    one_cycle()
    job.refresh_from_db()
    assert [why["code"] for why in job.reasons] == ["SlotAhead"]
    at(row.start_at)
    slots.tend()
    one_cycle()
    part = Part.objects.get(attempt__job=job)
    assert part.node.name == "b" and Reservation.objects.get(pk=row.pk).state == "active"
    slots.tend()
    assert Reservation.objects.get(pk=row.pk).used_at == row.start_at
    Job.objects.filter(pk=job.pk).update(state="RUNNING")
    at(row.end_at - timedelta(seconds=job.grace_s + 30))
    slots.tend()
    assert stopped(job) == "reclaim"


def test_a_slot_that_is_over_lets_go_and_what_waited_for_it_waits_in_the_queue(alice, now, at):
    builders.node("a", cards=2)
    row = book(alice, now, timedelta(), HOUR, gpus=2)
    job = builders.job(alice, gpus=2, reservation=row.pk)

    at(row.end_at)
    slots.tend()
    row.refresh_from_db()
    assert row.state in ("ended", "no_show") and not row.cards.filter(live=True).exists()
    assert one_cycle()
    assert Lease.objects.filter(part__attempt__job=job).count() == 2


def test_nobody_runs_across_a_slot_and_all_up_to_it(alice, bob, now, at):
    builders.node("a", cards=2)
    row = book(alice, now, HOUR, gpus=1, cards=None)
    long = builders.job(bob, gpus=2, time_limit_s=7200)
    short = builders.job(bob, gpus=2, time_limit_s=1800)

    one_cycle()
    assert set(Attempt.objects.values_list("job", flat=True)) == {short.pk}
    long.refresh_from_db()
    assert row.live and long.state == "PENDING"


def test_a_running_slot_is_charged_whole_and_its_jobs_not_beside_it(alice, now, at):
    builders.node("a")
    row = book(alice, now, timedelta(), HOUR, gpus=4)
    job = runs(alice, uuids(row)[:2], now)
    Job.objects.filter(pk=job.pk).update(reservation=row)

    def charged(moment: datetime) -> int:
        return sum(use.milli for use in snapshot.take(moment).world.uses)

    assert charged(now) == 4000
    assert charged(row.end_at) == 2000


def test_an_unused_slot_is_given_back_after_a_quarter_of_an_hour(alice, now, at, settings):
    builders.node("a")
    idle, used = book(alice, now, timedelta(), gpus=1), book(alice, now, timedelta(), gpus=1)
    by_hand = book(alice, now, timedelta(), gpus=1)
    Gpu.objects.filter(uuid__in=uuids(by_hand)).update(foreign_use="alice (pid 7)")
    job = runs(alice, uuids(used), now)
    Job.objects.filter(pk=job.pk).update(reservation=used)

    at(now + 15 * MINUTE - timedelta(seconds=1))
    slots.tend()
    assert Reservation.objects.filter(state="active").count() == 3
    at(now + 15 * MINUTE)
    slots.tend()
    idle.refresh_from_db()
    assert (idle.state, idle.end_at) == ("no_show", now + 15 * MINUTE)
    assert Reservation.objects.filter(state="active").count() == 2


def test_the_clocks_may_run_twice_late_or_be_set_back(alice, now, at):
    builders.node("a")
    row = book(alice, now, HOUR)
    at(row.start_at)
    slots.tend()
    at(row.start_at - HOUR / 2)
    slots.tend()
    slots.tend()
    row.refresh_from_db()
    assert row.state == "active" and len(uuids(row)) == 8
    at(row.end_at + 9 * HOUR)
    slots.tend()
    slots.tend()
    row.refresh_from_db()
    assert row.state == "ended" and row.closed_at == row.end_at + 9 * HOUR


@pytest.mark.parametrize("started", [False, True])
def test_a_card_that_fails_is_swapped_for_an_equal_one_and_the_holder_is_told(
    alice, bob, now, at, started
):
    builders.node("a", cards=4)
    row = book(alice, now, timedelta() if started else HOUR, gpus=2)
    book(bob, now, timedelta(), 4 * HOUR, gpus=1, team="speech")
    Gpu.objects.filter(uuid="GPU-a-0").update(health="failed")

    at(now + MINUTE)
    slots.tend()
    assert uuids(row) == ["GPU-a-1", "GPU-a-3"]
    row.refresh_from_db()
    assert row.trouble == "GPU 0 on a is out of service; GPU 3 on a takes its place."
    Gpu.objects.filter(uuid="GPU-a-1").update(present=False)
    slots.tend()
    row.refresh_from_db()
    assert row.trouble == "GPU 1 on a is out of service, and no equal card is free."


def test_a_node_that_is_lost_keeps_its_bookings_and_says_so(alice, now, at):
    builders.node("a", cards=2)
    row = book(alice, now, HOUR, gpus=2)
    Node.objects.update(liveness="lost")

    at(now + MINUTE)
    slots.tend()
    row.refresh_from_db()
    assert row.live and len(uuids(row)) == 2
    assert "is out of service, and no equal card is free" in row.trouble


def test_a_job_names_a_reservation_of_its_own_team_that_has_cards_enough(alice, bob, now):
    builders.node("a")
    row = book(alice, now, HOUR, gpus=2)

    def asked(user, team: str, **more) -> Job:
        order = parse({"team": team, "command": "true", "gpus": 1, "reservation": row.pk} | more)
        return draft(order, user_id=user.pk, at=now)

    assert asked(alice, "vision").reservation == row
    assert asked(alice, "vision").pool == Pool.objects.get()
    with pytest.raises(InvalidOrder, match="speech has no reservation"):
        asked(bob, "speech")
    with pytest.raises(InvalidOrder, match="has 2 cards; 3 are asked"):
        asked(alice, "vision", gpus=3)
    with pytest.raises(InvalidOrder, match="whole number"):
        asked(alice, "vision", reservation="next week")


def test_cards_are_free_again_for_the_queue_when_a_slot_is_given_back(alice, bob, now, at):
    builders.node("a", cards=1)
    book(alice, now, timedelta(), HOUR, gpus=1)
    waits = builders.job(bob)
    at(now + MINUTE)
    slots.tend()
    assert not one_cycle()
    at(now + 16 * MINUTE)
    slots.tend()
    assert one_cycle() and leases.charged().filter(part__attempt__job=waits).exists()
