"""A submitted job is placed by the next cycle, whole or not at all, and whoever waits says why."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from nodes import clock
from nodes.models import Node, Wake
from scheduling import commit, control, cycle, snapshot
from scheduling.actors import person
from scheduling.engine.plan import plan
from scheduling.models import Attempt, Card, Job, JobLog, Lease, Part, Quota
from scheduling.occupancy import HANDOVER_S
from scheduling.reasons import sentences
from scheduling.services import jobs
from scheduling.services.quotas import save_quota
from tests import builders


def test_a_submitted_job_gets_its_cards_and_a_run_id(alice):
    builders.node("a")
    job = builders.job(alice, gpus=3)

    assert cycle.serve() == 1

    job.refresh_from_db()
    attempt = Attempt.objects.get(job=job)
    assert job.state == "PLACED"
    assert Lease.objects.filter(part__attempt=attempt, freed_at=None).count() == 3
    assert attempt.run_id.startswith(f"{job.pk}-1-")
    assert list(JobLog.objects.values_list("event", flat=True)) == ["submit", "place"]


def test_without_a_wake_there_is_nothing_to_do(alice):
    builders.node("a")
    builders.job(alice)
    cycle.serve()

    assert not Wake.objects.exists()
    assert cycle.serve() == 0


def test_a_wake_written_while_the_lease_was_held_is_served_after_it(alice):
    builders.node("a")
    with control.lease() as fence:
        builders.job(alice)
        assert fence is not None
        assert cycle.serve() == 0
    assert cycle.serve() == 1


def test_a_job_over_its_teams_limit_waits_and_says_the_numbers(alice):
    for name in "abc":
        builders.node(name)
    for _ in range(2):
        builders.job(alice, gpus=8)
    late = builders.job(alice, gpus=1)

    cycle.serve()

    late.refresh_from_db()
    assert late.state == "PENDING"
    assert "16" in sentences(late)[0]


def test_in_dense_cycles_the_far_end_of_a_queue_is_told_later_and_the_rest_at_once(
    alice, monkeypatch
):
    monkeypatch.setattr(commit, "FRONT", 1)
    builders.node("a")
    Node.objects.update(accepts_work=False)
    ahead, front, far = (builders.job(alice) for _ in range(3))
    cycle.serve()
    jobs.cancel(person(alice), ahead, at=clock.now())
    late = builders.job(alice)

    with control.lease() as fence:
        cycle.run(fence, everybody=False)
        told = dict(Job.objects.values_list("pk", "position"))
        cycle.run(fence)

    assert (told[front.pk], told[far.pk], told[late.pk]) == (1, 3, 3)
    assert Job.objects.get(pk=far.pk).position == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("accepts_work", False),
        ("alarm", "changed key"),
        ("liveness", "suspect"),
        ("health", "failed"),
    ],
)
def test_a_node_that_takes_no_work_gets_none(alice, field, value):
    node = builders.node("a")
    job = builders.job(alice)
    Node.objects.filter(pk=node.pk).update(**{field: value})

    cycle.serve()

    job.refresh_from_db()
    assert job.state == "PENDING"
    assert sentences(job)


@pytest.mark.parametrize(
    "change",
    [
        {"health": "failed"},
        {"health": "degraded"},
        {"present": False},
        {"foreign_use": "mallory, pid 7, 900 MiB"},
    ],
)
def test_a_card_that_is_not_to_be_had_is_not_given(alice, change):
    node = builders.node("a", cards=2)
    bad = node.gpus.first()
    type(bad).objects.filter(pk=bad.pk).update(**change)
    job = builders.job(alice, gpus=1)
    cycle.serve()

    part = Part.objects.get(attempt__job=job)
    assert [lease.card.gpu_id for lease in part.leases.all()] != [bad.pk]


def test_a_quota_lowered_after_the_snapshot_stops_the_commit(alice, root, shop):
    builders.node("a")
    job = builders.job(alice, gpus=8)
    seen = snapshot.take(clock.now())
    decided = plan(seen.world)
    quota = Quota.objects.get(team=shop.teams["vision"])
    quota.nominal_milli = 4000
    save_quota(person(root), quota, at=clock.now())

    with control.lease() as fence:
        assert commit.apply(decided, seen=seen, fence=fence, now=clock.now()) == []

    job.refresh_from_db()
    assert job.state == "PENDING"
    assert not Lease.objects.exists()


def test_a_cycle_that_lost_its_lease_commits_nothing(alice):
    builders.node("a")
    builders.job(alice)
    seen = snapshot.take(clock.now())
    decided = plan(seen.world)
    stale = control.Fence(token=-1, last_began_at=None, last_took_ms=0)

    assert commit.apply(decided, seen=seen, fence=stale, now=clock.now()) == []
    assert not Attempt.objects.exists()


def test_a_job_cancelled_between_plan_and_commit_takes_no_card(alice):
    builders.node("a")
    first, second = builders.job(alice), builders.job(alice)
    seen = snapshot.take(clock.now())
    decided = plan(seen.world)
    jobs.cancel(person(alice), first, at=clock.now())

    with control.lease() as fence:
        placed = commit.apply(decided, seen=seen, fence=fence, now=clock.now())

    assert [Attempt.objects.get(pk=pk).job_id for pk in placed] == [second.pk]
    assert Lease.objects.count() == 1
    assert sum(card.held_milli for card in Card.objects.all()) == 1000


def test_what_was_planned_beside_a_job_that_was_cancelled_meanwhile_is_placed(alice):
    builders.node("a")
    first, second, third = (builders.job(alice) for _ in range(3))
    with control.lease() as fence:
        seen = snapshot.take(clock.now())
        decided = plan(seen.world)
        jobs.cancel(person(alice), second, at=clock.now())

        placed = commit.apply(decided, seen=seen, fence=fence, now=clock.now())

    assert set(Attempt.objects.values_list("pk", flat=True)) == set(placed)
    assert {a.job_id for a in Attempt.objects.all()} == {first.pk, third.pk}
    assert Lease.objects.count() == 2
    assert len({part.port for part in Part.objects.all()}) == 2


@pytest.mark.django_db(transaction=True)
def test_two_cycles_racing_for_one_card_place_one_job(transactional_db, shop):
    alice = shop.users["alice"]
    builders.node("a", cards=1)
    for _ in range(2):
        builders.job(alice)
    seen = [snapshot.take(clock.now()) for _ in range(2)]
    barrier = threading.Barrier(2)
    placed: list[int] = []

    def race(mine: snapshot.Snapshot) -> None:
        fence = control.Fence(token=0, last_began_at=None, last_took_ms=0)
        decided = plan(mine.world)
        barrier.wait()
        placed.extend(commit.apply(decided, seen=mine, fence=fence, now=clock.now()))
        connection.close()

    threads = [threading.Thread(target=race, args=(one,)) for one in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(placed) == 1
    assert Lease.objects.filter(freed_at=None).count() == 1
    assert sorted(Job.objects.values_list("state", flat=True)) == ["PENDING", "PLACED"]


def test_the_snapshot_costs_the_same_queries_whatever_the_size(alice, django_assert_num_queries):
    builders.node("a")
    builders.job(alice)
    now = clock.now()
    with django_assert_num_queries(17):
        snapshot.take(now)
    for name in "bcd":
        builders.node(name)
    for _ in range(20):
        builders.job(alice)
    with django_assert_num_queries(17):
        snapshot.take(now)


def test_a_waiting_job_is_told_when_it_starts_and_forgets_it_when_it_does(alice):
    builders.node("a")
    first = builders.job(alice, gpus=8, time_limit_s=3600)
    cycle.serve()
    second, third = builders.job(alice, gpus=8), builders.job(alice, gpus=8)
    now = clock.now()
    cycle.serve()

    second.refresh_from_db()
    third.refresh_from_db()
    limit = timedelta(seconds=3600 + first.grace_s + HANDOVER_S)
    assert abs(second.start_by - (now + limit)) <= timedelta(minutes=1)
    assert second.start_from <= second.start_by < third.start_by
    assert third.start_unsure == ""

    jobs.hold(person(alice), third, at=clock.now())
    third.refresh_from_db()
    assert (third.start_from, third.start_by) == (None, None)


def test_a_prediction_is_not_written_again_for_a_minute(alice):
    builders.node("a")
    builders.job(alice, gpus=8, time_limit_s=3600)
    cycle.serve()
    waiting = builders.job(alice, gpus=8)
    cycle.serve()
    waiting.refresh_from_db()
    told = waiting.start_by

    later = clock.now() + timedelta(seconds=50)
    seen = snapshot.take(later)
    assert commit.tell(plan(seen.world).waiting, seen=seen, now=later) == 0
    later += timedelta(hours=3)
    seen = snapshot.take(later)
    assert commit.tell(plan(seen.world).waiting, seen=seen, now=later) == 1
    waiting.refresh_from_db()
    assert waiting.start_by > told
