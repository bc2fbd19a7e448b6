"""The brake: nothing is placed, started, stopped or evicted while it is on, and nothing is lost."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from nodes import clock
from nodes.models import Wake
from scheduling import cycle, freezing, launch, looks, reconcile
from scheduling.actors import person
from scheduling.models import Attempt, AuditEntry, Freeze, Job
from scheduling.reasons import sentences
from scheduling.services import jobs
from tests import builders
from tests.scheduling.scripted import Scripted
from tests.scheduling.test_leaving import started


@pytest.fixture
def node_side(monkeypatch) -> Scripted:
    return Scripted(monkeypatch)


def freeze(reason: str = "the switch is being replaced") -> None:
    call_command("freeze", reason=reason)


def test_who_waits_stays_waiting_and_is_told_why(alice, node_side):
    builders.node("a")
    freeze()
    job = builders.job(alice)

    cycle.serve(always=True)

    job.refresh_from_db()
    assert (job.state, Wake.objects.count()) == ("PENDING", 0)
    assert "the switch is being replaced" in sentences(job)[0]
    call_command("freeze", lift=True)
    assert Wake.objects.exists()
    started(job)


def test_a_plan_that_was_made_before_it_commits_nothing(alice, node_side, monkeypatch):
    builders.node("a")
    job = builders.job(alice)
    plan = cycle.plan

    def thinking(world):
        decided = plan(world)
        freeze()
        return decided

    monkeypatch.setattr(cycle, "plan", thinking)
    cycle.serve(always=True)

    job.refresh_from_db()
    assert job.state == "PENDING"


def test_nothing_is_started_or_signalled_and_the_rest_goes_on(alice, node_side):
    builders.node("a")
    placed, running, ending = (builders.job(alice) for _ in range(3))
    cycle.serve(always=True)
    for job in (running, ending):
        launch.launch([Attempt.objects.get(job=job).pk])
    freeze()
    node_side.asked.clear()
    for job in (placed, running):
        jobs.cancel(person(alice), running, at=clock.now()) if job == running else None
        launch.launch([Attempt.objects.get(job=job).pk])
        launch.stop(Attempt.objects.get(job=job).pk)
    reconcile.reconcile()

    assert node_side.asked == []
    node_side.end(Attempt.objects.get(job=ending).run_id)
    looks.look(Attempt.objects.get(job=ending).parts.get().node_id)
    states = {job.pk: Job.objects.get(pk=job.pk).state for job in (placed, running, ending)}
    assert list(states.values()) == ["PLACED", "STOPPING", "COMPLETED"]
    call_command("freeze", lift=True)
    launch.stop(Attempt.objects.get(job=running).pk)
    assert node_side.claims["a", Attempt.objects.get(job=running).run_id]["asked"] == "cancel"


def test_the_patience_with_a_starting_job_begins_anew_when_it_is_lifted(alice, node_side, settings):
    builders.node("a")
    job = builders.job(alice)
    cycle.serve(always=True)
    node_side.deaf_after = {("a", "prepare")}
    launch.launch([Attempt.objects.get(job=job).pk])
    freeze()
    late = clock.now() - timedelta(seconds=settings.GANGWAY_LAUNCH_PATIENCE_S + 1)
    Attempt.objects.update(began_at=late)
    reconcile.reconcile()
    call_command("freeze", lift=True)
    reconcile.reconcile()

    job.refresh_from_db()
    assert job.state == "STARTING"


def test_it_needs_a_reason_is_there_once_and_is_noted(shop):
    with pytest.raises(CommandError, match="needs a reason"):
        freeze(" ")
    freeze()
    with pytest.raises(CommandError, match="frozen already"):
        freeze("again")
    with pytest.raises(IntegrityError), transaction.atomic():
        Freeze.objects.create(frozen_at=clock.now(), frozen_by="x", reason="y")
    call_command("freeze", lift=True)
    with pytest.raises(CommandError, match="Nothing is frozen"):
        call_command("freeze", lift=True)

    assert list(AuditEntry.objects.values_list("verb", flat=True)) == ["lift freeze", "freeze"]
    assert freezing.current() is None


def test_every_page_says_so(alice, client_of):
    freeze("the <b>switch</b>")

    for page in ("/", "/jobs/", "/jobs/new/", "/nodes/"):
        text = client_of(alice).get(page).content.decode()
        assert "Frozen since" in text
        assert "the &lt;b&gt;switch&lt;/b&gt;" in text
    call_command("freeze", lift=True)
    assert "Frozen since" not in client_of(alice).get("/").content.decode()
