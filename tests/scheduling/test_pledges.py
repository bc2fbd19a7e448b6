"""Preemption in rows: pledged with its evictions or not at all, kept, handed over, or fallen."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from nodes import clock
from nodes.models import Gpu, Node
from scheduling import commit, control, cycle, evicting, launch, ledger, pledges, reports, snapshot
from scheduling.actors import person
from scheduling.engine.plan import plan
from scheduling.models import (
    Attempt,
    AuditEntry,
    Card,
    Job,
    Lease,
    Part,
    Pledge,
    PledgeCard,
    PriorityClass,
    Quota,
)
from scheduling.reasons import sentences
from scheduling.services import jobs
from scheduling.states import StopReason
from scheduling.stopping import ask_to_stop
from scheduling.transitions import locked
from tests import builders

from .scripted import Scripted


@pytest.fixture(autouse=True)
def plenty(shop):
    Quota.objects.all().delete()


@pytest.fixture
def scripted(monkeypatch):
    return Scripted(monkeypatch)


def run(user, **more):
    """A job that runs."""
    job = builders.job(user, **more)
    cycle.serve()
    launch.launch([Attempt.objects.get(job=job, ended_at=None).pk])
    job.refresh_from_db()
    assert job.state == "RUNNING"
    return job


def low(user, **more):
    return run(user, priority="low", **more)


def leave(scripted, job, **more):
    """The victim's processes are gone and its cards clean, as its nodes say."""
    attempt = Attempt.objects.get(job=job, ended_at=None)
    launch.stop(attempt.pk)
    scripted.end(attempt.run_id, **more)
    for part in Part.objects.filter(attempt=attempt).select_related("node"):
        said = scripted.report(part.node.name, attempt.run_id)
        reports.hear(part.node_id, [said], at=clock.now())
    reports.take()


def held_by(job):
    leases = Lease.objects.filter(part__attempt__job=job, freed_at=None)
    return set(leases.values_list("card", flat=True))


def test_the_victim_is_told_the_cards_are_pledged_and_the_winner_gets_them(alice, bob, scripted):
    builders.node("a", cards=4)
    victim = low(alice, gpus=4)
    cards = held_by(victim)
    winner = builders.job(bob, gpus=4, priority="high")

    cycle.serve()

    victim.refresh_from_db()
    winner.refresh_from_db()
    attempt = Attempt.objects.get(job=victim)
    assert (victim.state, attempt.stop_reason, attempt.stop_by_job) == (
        "STOPPING",
        "preempt",
        winner,
    )
    assert attempt.stop_note == f"preempted by job {winner.pk} (team speech, priority high)"
    assert attempt.goal == "again"
    pledge = Pledge.objects.get(job=winner, ended_at=None)
    assert set(PledgeCard.objects.values_list("card", flat=True)) == cards
    assert pledge.parts.get().node.name == "a"
    told = AuditEntry.objects.get(subject=f"job {victim.pk}", verb="preempt")
    assert (told.facts["by"], told.team) == (winner.pk, victim.team)
    assert sentences(winner)[0].startswith(f"4 GPUs of job {victim.pk} on a leave by ")

    leave(scripted, victim)
    # The cards are free now, and the victim waits again; nobody but the winner gets them.
    cycle.serve()

    winner.refresh_from_db()
    victim.refresh_from_db()
    assert (winner.state, victim.state) == ("PLACED", "PENDING")
    assert held_by(winner) == cards
    pledge.refresh_from_db()
    assert pledge.why_ended == "started"
    assert not PledgeCard.objects.filter(ended_at=None).exists()


def test_freed_cards_wait_until_the_last_victim_has_left(alice, bob, scripted):
    builders.node("a", cards=2)
    first, second = low(alice), low(alice)
    winner = builders.job(bob, gpus=2, priority="high")
    cycle.serve()
    leave(scripted, first)
    late = builders.job(bob, priority="high")

    for _ in range(3):
        cycle.serve(always=True)

    waiting = Job.objects.filter(state="PENDING").order_by("pk")
    assert list(waiting) == [first, winner, late]
    assert Attempt.objects.filter(stop_reason="preempt").count() == 2
    leave(scripted, second)
    cycle.serve()
    winner.refresh_from_db()
    assert winner.state == "PLACED"


def test_a_pledge_outlives_every_process(alice, bob, scripted):
    builders.node("a", cards=1)
    victim = low(alice)
    winner = builders.job(bob, priority="high")
    cycle.serve()

    # A worker that knows nothing sees what the rows say.
    seen = snapshot.take(clock.now()).world
    assert [one.job for one in seen.pledges] == [winner.pk]
    assert [one.leaving for one in seen.running] == [True]
    for _ in range(3):
        cycle.serve(always=True)
    assert Pledge.objects.count() == 1
    assert Attempt.objects.get(job=victim).log_pieces.count() == 0


def test_a_card_is_pledged_to_one_job_at_a_time(alice, bob, scripted):
    builders.node("a", cards=1)
    low(alice)
    winner = builders.job(bob, priority="high")
    cycle.serve()
    (pledge,) = pledges.live()
    with pytest.raises(IntegrityError), transaction.atomic():
        PledgeCard.objects.create(
            part=Pledge.objects.get().parts.get(), card=Card.objects.get(), ended_at=None
        )
    # The service says no as well: nothing of it is written.
    other = builders.job(alice, priority="high")
    with ledger.locked():
        stolen = pledge.__class__(other.pk, pledge.model, pledge.parts)
        assert not evicting.carry_out(stolen, [], now=clock.now())
    assert list(Pledge.objects.values_list("job", flat=True)) == [winner.pk]


def test_a_pledged_card_is_placed_for_nobody_else(alice, bob, scripted):
    builders.node("a", cards=1)
    victim = low(alice)
    builders.job(bob, priority="high")
    cycle.serve()
    leave(scripted, victim)
    other = builders.job(alice)
    with control.lease() as fence:
        seen = snapshot.take(clock.now())
        decided = plan(seen.world)
        (mine,) = decided.placements
        wrong = type(decided)((type(mine)(other.pk, mine.parts),), ())
        assert commit.apply(wrong, seen=seen, fence=fence, now=clock.now()) == []
    other.refresh_from_db()
    assert other.state == "PENDING"


@pytest.mark.parametrize("act", [jobs.cancel, jobs.hold])
def test_a_pledge_falls_with_its_job(alice, bob, scripted, act):
    builders.node("a", cards=1)
    victim = low(alice)
    winner = builders.job(bob, priority="high")
    cycle.serve()

    act(person(bob), winner, at=clock.now())

    assert not Pledge.objects.filter(ended_at=None).exists()
    leave(scripted, victim)
    cycle.serve()
    victim.refresh_from_db()
    assert victim.state == "PLACED"


@pytest.mark.parametrize("what", ["card", "node"])
def test_a_pledge_falls_with_its_card_or_node(alice, bob, scripted, what):
    node = builders.node("a", cards=1)
    low(alice)
    builders.job(bob, priority="high")
    cycle.serve()
    if what == "card":
        Gpu.objects.update(health="failed")
    else:
        Node.objects.filter(pk=node.pk).update(liveness="suspect")

    cycle.serve(always=True)

    fallen = Pledge.objects.get()
    assert fallen.ended_at is not None
    assert fallen.why_ended in ("a card on a is failed", "a takes no work (suspect)")


def test_what_changed_since_the_plan_drops_pledge_and_evictions_together(alice, bob, scripted):
    builders.node("a", cards=2)
    first, second = low(alice), low(alice)
    builders.job(bob, gpus=2, priority="high")
    with control.lease() as fence:
        seen = snapshot.take(clock.now())
        decided = plan(seen.world)
        assert len(decided.evictions) == 2
        with transaction.atomic():
            ask_to_stop(
                person(alice), locked(second.pk), StopReason.CANCEL, at=clock.now(), note="mine"
            )
        commit.apply(decided, seen=seen, fence=fence, now=clock.now())
    first.refresh_from_db()
    assert first.state == "RUNNING"
    assert not Pledge.objects.exists()
    # The next cycle sees the card that leaves anyway, and asks only for the other.
    cycle.serve(always=True)
    first.refresh_from_db()
    assert first.state == "STOPPING"


def test_protection_is_read_from_the_rows(alice, bob, scripted):
    builders.node("a", cards=1)
    victim = low(alice)
    PriorityClass.objects.filter(name="low").update(min_runtime_s=600)
    builders.job(bob, priority="high")
    cycle.serve()
    victim.refresh_from_db()
    assert victim.state == "RUNNING"
    Attempt.objects.update(started_at=clock.now() - timedelta(seconds=700))
    cycle.serve(always=True)
    victim.refresh_from_db()
    assert victim.state == "STOPPING"


def test_who_was_stopped_a_moment_ago_is_left_alone(alice, bob, scripted):
    builders.node("a", cards=1)
    victim = low(alice)
    winner = builders.job(bob, priority="high")
    cycle.serve()
    leave(scripted, victim)
    cycle.serve()
    launch.launch([Attempt.objects.get(job=winner).pk])
    attempt = Attempt.objects.get(job=winner)
    scripted.end(attempt.run_id)
    reports.hear(Node.objects.get().pk, [scripted.report("a", attempt.run_id)], at=clock.now())
    reports.take()
    cycle.serve()
    victim.refresh_from_db()
    assert victim.state == "PLACED"
    builders.job(bob, priority="high")
    cycle.serve()
    victim.refresh_from_db()
    assert victim.state == "PLACED"
