"""A job that is asked to make way: it saves, waits again, and goes on from what it had saved."""

import pytest
from django.db import transaction

from nodes import clock
from scheduling import cycle, launch, looks, reports
from scheduling.actors import CYCLE
from scheduling.models import Attempt, Job, Part
from scheduling.services import jobs
from scheduling.states import StopReason
from scheduling.stopping import ask_to_stop
from scheduling.transitions import locked
from tests import builders
from tests.scheduling.scripted import Scripted


@pytest.fixture
def node_side(monkeypatch) -> Scripted:
    return Scripted(monkeypatch)


def running(user, **order) -> tuple[Job, Attempt]:
    job = builders.job(user, **order)
    return job, started(job)


def started(job: Job) -> Attempt:
    cycle.serve(always=True)
    attempt = Attempt.objects.get(job=job, ended_at=None)
    launch.launch([attempt.pk])
    job.refresh_from_db()
    assert job.state == "RUNNING"
    return attempt


def make_way(job: Job, reason: StopReason = StopReason.PREEMPT, by: Job | None = None) -> None:
    with transaction.atomic():
        assert ask_to_stop(CYCLE, locked(job.pk), reason, at=clock.now(), by=by)
    launch.stop(Attempt.objects.get(job=job, ended_at=None).pk)


def look() -> None:
    for part in Part.objects.filter(settled_at=None):
        looks.look(part.node_id)


def told(*saved: tuple[int, float], n: int = 1, cut: bool = False) -> dict:
    """A node's account of checkpoints (step, seconds since the start)."""
    checkpoints = [
        {"step": step, "path": f"/ck/{step}", "bytes": 9, "begun_s": at - 0.5, "done_s": at}
        for step, at in saved
    ]
    opened = [{"step": 999, "begun_s": 50.0}] if cut else []
    return {"n": n, "checkpoints": checkpoints, "open": opened, "step": 7, "ranks": {}}


def test_who_saves_and_leaves_waits_again_and_goes_on_from_there(alice, dave, node_side):
    builders.node("a")
    job, attempt = running(alice, gpus=4)
    urgent = builders.job(dave, gpus=8, priority="high")
    make_way(job, by=urgent)
    node_side.end(
        attempt.run_id, exit=0, exit_before_term=False, progress=told((1000, 60.0), (1200, 114.0)),
        asked_s=100.0, ran_s=114.25,
    )  # fmt: skip

    look()

    job.refresh_from_db()
    ended = Attempt.objects.get(pk=attempt.pk)
    assert (job.state, ended.outcome, ended.lost_gpu_s) == ("PENDING", "preempted", 1)
    assert (ended.saved_step, ended.saved_path) == (1200, "/ck/1200")
    assert ended.stop_by_job == urgent
    assert ended.note.startswith(
        f"preempted by job {urgent.pk} (team speech, priority high) at {clock.now():%Y}"
    )
    assert ended.note.endswith(
        "; window 60 s; checkpoint step 1,200 saved after 14 s; 1 GPU-seconds lost."
    )
    jobs.cancel(CYCLE, urgent, at=clock.now())
    again = started(job)
    order = node_side.claims["a", again.run_id]["order"]
    assert order["restarts"] == 1
    assert order["checkpoint"] == {"step": 1200, "path": "/ck/1200"}


def test_a_checkpoint_that_was_cut_is_never_gone_on_from(alice, node_side):
    builders.node("a")
    job, attempt = running(alice)
    make_way(job)
    cut = {"exit": None, "signal": 9, "exit_before_term": False, "end": "stopped"}
    node_side.end(attempt.run_id, progress=told((10, 40.0), cut=True), asked_s=100.0, **cut)

    look()

    ended = Attempt.objects.get(pk=attempt.pk)
    assert (ended.saved_step, "a later one was cut off" in ended.note) == (10, True)
    assert node_side.claims["a", started(job).run_id]["order"]["checkpoint"]["step"] == 10


def test_what_was_saved_is_known_while_it_runs_and_old_news_change_nothing(alice, node_side):
    node = builders.node("a")
    _, attempt = running(alice)
    claim = node_side.claims["a", attempt.run_id]

    for progress in (told((5, 10.0), n=3), told(n=2), {"n": "?"}, None):
        claim["progress"] = progress
        looks.look(node.pk)

    now = Attempt.objects.get(pk=attempt.pk)
    assert (now.saved_step, now.saved_s) == (5, 10.0)
    assert (now.saved_at - Part.objects.get(attempt=attempt).started_at).total_seconds() == 10.0


def test_a_step_of_a_gang_counts_when_every_part_that_saves_has_it(alice, node_side):
    builders.node("a")
    builders.node("b")
    _, attempt = running(alice, gpus=16, nodes=2)
    for name, saved in (("a", ((10, 9.0), (20, 19.0))), ("b", ((10, 9.5),))):
        node_side.claims[name, attempt.run_id]["progress"] = told(*saved)

    look()

    assert Attempt.objects.get(pk=attempt.pk).saved_step == 10


@pytest.mark.parametrize(
    ("exit_code", "requeue", "state", "outcome"),
    [
        (0, True, "PENDING", "preempted"),
        (1, True, "PENDING", "preempted"),
        (93, True, "FAILED", "failed"),
        (94, True, "COMPLETED", "completed"),
        (0, False, "FAILED", "preempted"),
    ],
)
def test_the_exit_code_says_what_follows_a_stop(
    alice, node_side, exit_code, requeue, state, outcome
):
    builders.node("a")
    job, attempt = running(alice, requeue=requeue)
    make_way(job)
    node_side.end(attempt.run_id, exit=exit_code, exit_before_term=False, end="stopped")

    look()

    job.refresh_from_db()
    assert (job.state, Attempt.objects.get(pk=attempt.pk).outcome) == (state, outcome)


def test_an_exit_before_the_signal_is_the_jobs_own_end(alice, node_side):
    builders.node("a")
    job, attempt = running(alice)
    make_way(job)
    node_side.end(attempt.run_id, exit=0, exit_before_term=True)

    look()

    job.refresh_from_db()
    assert (job.state, Attempt.objects.get(pk=attempt.pk).lost_gpu_s) == ("COMPLETED", 0)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (StopReason.RECLAIM, "reclaimed"),
        (StopReason.DRAIN, "drained"),
        (StopReason.CONTENTION, "contention"),
        (StopReason.FAULT, "card_failed"),
    ],
)
def test_every_reason_to_make_way_has_its_outcome(alice, node_side, reason, outcome):
    builders.node("a")
    job, attempt = running(alice)
    make_way(job, reason)
    node_side.end(attempt.run_id, exit=0, exit_before_term=False, end="stopped")

    look()

    job.refresh_from_db()
    assert (job.state, Attempt.objects.get(pk=attempt.pk).outcome) == ("PENDING", outcome)


def test_only_rank_0_is_signalled_until_its_part_is_gone(alice, node_side):
    builders.node("a")
    builders.node("b")
    job, attempt = running(alice, gpus=16, nodes=2, signal_to="rank0")
    told_to: list[tuple[str, str]] = []
    plain = node_side.do_stop

    def stop(node, args):
        told_to.append((node.name, args["to"]))
        return plain(node, args)

    node_side.do_stop = stop
    make_way(job)
    node_side.end(attempt.run_id, node="a", exit=0, exit_before_term=False)
    look()
    reports.take()
    launch.stop(attempt.pk)

    assert told_to == [("a", "rank0"), ("b", "rank0"), ("b", "group")]
