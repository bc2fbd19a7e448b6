"""What a preemption would cost and which window fits: as declared and as measured."""

import pytest

from scheduling import advice
from scheduling.models import Attempt, Job
from tests import builders
from tests.scheduling.scripted import Scripted
from tests.scheduling.test_leaving import look, make_way, running, started, told

H = 3600


@pytest.fixture
def node_side(monkeypatch) -> Scripted:
    return Scripted(monkeypatch)


def said(job: Job) -> dict[str, str]:
    return {one.code: one.sentence for one in advice.of(Job.objects.get(pk=job.pk))}


@pytest.mark.parametrize(
    ("interval_s", "grace_s", "words"),
    [
        (
            2 * H,
            60,
            "Saves every 2 h, window 60 s, no save on signal seen so far: "
            "up to 2 h × 8 GPUs lost, 1 h on average.",
        ),
        (
            600,
            60,
            "Saves every 10 min, window 60 s, no save on signal seen so far: "
            "up to 10 min × 8 GPUs lost, 5 min on average.",
        ),
    ],
)
def test_the_interval_says_what_a_preemption_costs(alice, interval_s, grace_s, words):
    builders.node("a")
    job = builders.job(alice, gpus=8, checkpoint_interval_s=interval_s, grace_s=grace_s)

    assert said(job) == {"PreemptionCost": words}
    (one,) = advice.of(job)
    assert (one.numbers["most_gpu_s"], one.numbers["mean_s"]) == (8 * interval_s, interval_s // 2)


def test_a_preemptible_job_that_says_nothing_is_told_what_it_risks(alice):
    builders.node("a")

    risky = builders.job(alice, priority="low", time_limit_s=24 * H, gpus=2)
    calm = builders.job(alice)

    assert "up to 24 h × 2 GPUs lost" in said(risky)["NoCheckpoint"]
    assert said(calm) == {}


@pytest.mark.parametrize(
    ("took_s", "grace_s", "code", "suggested_s"),
    [(80, 60, "WindowShort", 120), (40, 60, None, None), (4, 60, "WindowLong", 6)],
)
def test_measured_saves_suggest_a_window(alice, node_side, took_s, grace_s, code, suggested_s):
    builders.node("a")
    job, attempt = running(alice, grace_s=grace_s)
    progress = told(*[(step, 100.0 * step) for step in range(1, 11)])
    for one in progress["checkpoints"]:
        one["begun_s"] = one["done_s"] - took_s
    node_side.claims["a", attempt.run_id]["progress"] = progress
    look()

    found = {one.code: one for one in advice.of(Job.objects.get(pk=job.pk))}
    assert ("WindowShort" in found or "WindowLong" in found) == (code is not None)
    if code:
        assert found[code].numbers["suggested_s"] == suggested_s
    assert "Saves every 100 s" in found["PreemptionCost"].sentence


def test_one_slow_save_of_a_hundred_does_not_set_the_window():
    times = tuple([2.0] * 96 + [500.0] * 4)

    assert advice.Measured(times).p95_s == 2.0


def test_who_saved_when_asked_is_told_so_and_a_new_job_of_the_kind_too(alice, node_side):
    builders.node("a")
    job, attempt = running(alice, command="train", checkpoint_interval_s=7200)
    make_way(job)
    node_side.end(
        attempt.run_id, exit=0, exit_before_term=False, progress=told((5, 101.0)), asked_s=100.0
    )
    look()
    started(job)

    assert list(said(job)) == ["WindowLong", "SavesWhenAsked"]
    assert "SavesWhenAsked" in said(builders.job(alice, command="train"))
    assert "SavesWhenAsked" not in said(
        builders.job(alice, command="other", checkpoint_interval_s=60)
    )
    assert Attempt.objects.get(pk=attempt.pk).saved_step == 5
