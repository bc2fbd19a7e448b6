"""After an end: who is tried again, how often and when; each rule by a job of its own."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from nodes import clock
from scheduling import cycle, launch, looks, reconcile
from scheduling.actors import person
from scheduling.models import Attempt, ExcludedNode, Job, Part
from scheduling.reasons import sentences
from scheduling.recovery import RULES
from scheduling.services import jobs
from tests import builders
from tests.scheduling.scripted import Scripted
from tests.scheduling.test_leaving import started, told


@pytest.fixture
def node_side(monkeypatch) -> Scripted:
    return Scripted(monkeypatch)


def crash(node_side: Scripted, job: Job, *, saved: int | None = None, exit_code: int = 1) -> Job:
    """One attempt that saves a step (or nothing new) and ends by itself."""
    Job.objects.filter(pk=job.pk).update(eligible_at=None)
    attempt = started(job)
    progress = told((saved, 1.0)) if saved is not None else None
    node_side.end(attempt.run_id, exit=exit_code, progress=progress)
    for part in Part.objects.filter(attempt=attempt):
        looks.look(part.node_id)
    job.refresh_from_db()
    return job


def waits_s(job: Job) -> int:
    assert job.eligible_at is not None
    return round((job.eligible_at - clock.now()).total_seconds() / 60) * 60


def test_the_page_has_a_row_for_every_end_and_says_what_the_table_says():
    page = (Path(__file__).parents[2] / "docs" / "job-lifecycle.md").read_text()
    words = {"always": "yes", "from_checkpoint": "from a complete checkpoint", "never": "no"}
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (\w*) ?\| ?(.*?) ?\|$", page, re.M)

    assert set(RULES) == {outcome.value for outcome in Attempt.Outcome}
    assert {name: (again, often) for name, again, often, _ in rows if name in RULES} == {
        name: (
            words[rule.again],
            "" if rule.again == "never" else "5" if rule.limited else "any",
        )
        for name, rule in RULES.items()
    }


def test_a_crash_after_a_complete_checkpoint_goes_on_from_it_after_a_minute(alice, node_side):
    builders.node("a")
    job = crash(node_side, builders.job(alice), saved=40)

    assert (job.state, waits_s(job)) == ("PENDING", 60)
    cycle.serve(always=True)
    job.refresh_from_db()
    assert job.state == "PENDING"
    assert "60 s" in sentences(job)[0] or "59 s" in sentences(job)[0]
    crash(node_side, job, saved=80)
    assert waits_s(job) == 120
    assert Attempt.objects.get(job=job, number=2).resumed_step == 40


@pytest.mark.parametrize(
    ("more", "saved", "exit_code", "state"),
    [
        ({}, None, 1, "FAILED"),
        ({"requeue": False}, 40, 1, "FAILED"),
        ({}, 40, 92, "FAILED"),
        ({}, 40, 93, "FAILED"),
        ({}, 40, 91, "OUT_OF_MEMORY"),
        ({}, 40, 0, "COMPLETED"),
    ],
)
def test_who_has_nothing_saved_or_forbids_it_is_not_tried_again(
    alice, node_side, more, saved, exit_code, state
):
    builders.node("a")

    assert crash(
        node_side, builders.job(alice, **more), saved=saved, exit_code=exit_code
    ).state == (state)


def test_a_job_may_ask_for_another_try_by_its_exit_code_without_a_wait(alice, node_side):
    builders.node("a")
    job = crash(node_side, builders.job(alice), exit_code=90)

    assert (job.state, job.eligible_at) == ("PENDING", None)


def test_three_restarts_that_bring_nothing_new_are_the_last(alice, node_side):
    builders.node("a")
    job = crash(node_side, builders.job(alice), saved=40)
    states = [crash(node_side, job).state for _ in range(3)]

    assert states == ["PENDING", "PENDING", "FAILED"]
    assert "3 restarts from step 40 brought nothing new" in Attempt.objects.last().note


def test_a_fifth_crash_in_a_row_is_held_with_its_reason_and_counts_anew_once_released(
    alice, node_side
):
    builders.node("a")
    job = builders.job(alice)
    waits = []
    for step in range(1, 5):
        waits.append(waits_s(crash(node_side, job, saved=step)))
    crash(node_side, job, saved=5)

    assert waits == [60, 120, 240, 480]
    assert job.state == "HELD"
    assert "5 crashes in a row" in sentences(job)[0]
    jobs.release(person(alice), job, at=clock.now())
    assert waits_s(crash(node_side, job, saved=6)) == 60


def test_a_launch_nobody_answers_waits_longer_each_time_and_lets_others_by(
    alice, node_side, settings
):
    builders.node("a", cards=1)
    job = builders.job(alice)
    node_side.deaf_after = {("a", "prepare"), ("a", "go")}
    for wait_s in (60, 120):
        Job.objects.filter(pk=job.pk).update(eligible_at=None)
        cycle.serve(always=True)
        attempt = Attempt.objects.get(job=job, ended_at=None)
        launch.launch([attempt.pk])
        late = clock.now() - timedelta(seconds=settings.GANGWAY_LAUNCH_PATIENCE_S + 1)
        Attempt.objects.filter(pk=attempt.pk).update(began_at=late)
        reconcile.reconcile()
        launch.stop(attempt.pk)
        job.refresh_from_db()
        assert (job.state, waits_s(job)) == ("PENDING", wait_s)
    node_side.deaf_after = set()
    other = builders.job(alice)

    assert started(other).number == 1


def test_a_port_that_is_taken_costs_no_node_and_the_next_try_takes_another(alice, node_side):
    builders.node("a")
    node_side.refuses["a"] = ("port_taken", "node")
    job = builders.job(alice)
    cycle.serve(always=True)
    attempt = Attempt.objects.get(job=job, ended_at=None)
    launch.launch([attempt.pk])
    launch.stop(attempt.pk)
    node_side.refuses.clear()

    started(job)

    ports = list(Part.objects.order_by("id").values_list("port", flat=True))
    assert len(set(ports)) == 2
    assert not ExcludedNode.objects.exists()
