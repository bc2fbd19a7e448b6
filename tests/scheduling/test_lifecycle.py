"""From placed to ended over a scripted node: the good way, every refusal, every silence."""

from datetime import timedelta

import pytest

from nodes import clock
from nodes.models import Gpu, Node, RunReport
from scheduling import cycle, launch, looks, reconcile, reports
from scheduling.actors import person
from scheduling.models import Attempt, AuditEntry, ExcludedNode, Job, JobLog, Lease, LogPiece, Part
from scheduling.reasons import sentences
from scheduling.services import jobs
from scheduling.states import DONE
from tests import builders
from tests.scheduling.scripted import Scripted


@pytest.fixture
def node_side(monkeypatch) -> Scripted:
    return Scripted(monkeypatch)


def placed(user, **order) -> tuple[Job, Attempt]:
    job = builders.job(user, **order)
    cycle.serve()
    job.refresh_from_db()
    assert job.state == "PLACED", job.reasons
    return job, Attempt.objects.get(job=job, ended_at=None)


def running(user, **order) -> tuple[Job, Attempt]:
    job, attempt = placed(user, **order)
    launch.launch([attempt.pk])
    job.refresh_from_db()
    assert job.state == "RUNNING"
    return job, attempt


def look_at_all() -> None:
    for node in Node.objects.all():
        looks.look(node.pk)


def state(job: Job) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=job.pk)


def live_leases() -> int:
    return Lease.objects.filter(freed_at=None).count()


def test_a_job_runs_ends_and_gives_its_cards_back(alice, node_side):
    builders.node("a")
    job, attempt = running(alice, gpus=2)
    node_side.end(attempt.run_id)

    look_at_all()

    assert state(job) == "COMPLETED"
    assert live_leases() == 0
    assert list(JobLog.objects.filter(job=job).values_list("event", flat=True)) == [
        "submit", "place", "begin", "start", "gone", "complete",
    ]  # fmt: skip


def test_the_same_report_heard_again_changes_nothing(alice, node_side):
    builders.node("a")
    job, attempt = running(alice)
    node_side.end(attempt.run_id, exit=3)
    for _ in range(3):
        look_at_all()

    assert state(job) == "FAILED"
    assert RunReport.objects.filter(run_id=attempt.run_id, seq=5).count() == 1
    assert Attempt.objects.get(pk=attempt.pk).note == "Rank 0 ended with exit code 3."


def test_an_end_heard_before_the_start_was_acknowledged_is_both(alice, node_side):
    builders.node("a")
    job, attempt = placed(alice)
    node_side.deaf_after.add(("a", "go"))
    launch.launch([attempt.pk])
    assert state(job) == "STARTING"
    node_side.end(attempt.run_id)

    look_at_all()

    assert state(job) == "COMPLETED"
    assert "start" in JobLog.objects.filter(job=job).values_list("event", flat=True)


def test_a_lost_answer_to_go_starts_nothing_twice(alice, node_side):
    builders.node("a")
    job, attempt = placed(alice)
    node_side.deaf_after = {("a", "go")}
    launch.launch([attempt.pk])
    node_side.deaf_after = set()
    launch.launch([attempt.pk])

    assert state(job) == "RUNNING"
    assert node_side.starts == 1


def test_a_busy_node_is_left_out_and_the_job_waits_again(alice, node_side):
    builders.node("a")
    node_side.refuses["a"] = ("card_busy", "node")
    job, attempt = placed(alice)

    launch.launch([attempt.pk])
    launch.stop(attempt.pk)

    assert state(job) == "PENDING"
    assert live_leases() == 0
    assert ExcludedNode.objects.get(job=job).node.name == "a"
    cycle.serve()
    assert state(job) == "PENDING"


def test_a_job_that_wants_no_second_try_fails_with_the_first_refusal(alice, node_side):
    builders.node("a")
    builders.node("b")
    node_side.refuses["a"] = node_side.refuses["b"] = ("card_busy", "node")
    job, attempt = placed(alice, requeue=False)

    launch.launch([attempt.pk])
    launch.stop(attempt.pk)

    assert state(job) == "FAILED"


def test_a_job_that_never_gets_started_is_held_after_five_tries(alice, node_side):
    for name in "abcdef":
        builders.node(name)
        node_side.refuses[name] = ("card_busy", "node")
    job = builders.job(alice)
    for _ in range(5):
        cycle.serve(always=True)
        attempt = Attempt.objects.get(job=job, ended_at=None)
        launch.launch([attempt.pk])
        launch.stop(attempt.pk)

    job.refresh_from_db()
    assert job.state == "HELD"
    assert "5 placements" in sentences(job)[0]
    jobs.release(person(alice), job, at=clock.now())
    assert state(job) == "PENDING"


def test_a_job_two_nodes_refuse_as_its_own_matter_fails(alice, node_side):
    for name in "abc":
        builders.node(name)
        node_side.refuses[name] = ("no_workdir", "job")
    job = builders.job(alice)
    for _ in range(2):
        cycle.serve()
        attempt = Attempt.objects.get(job=job, ended_at=None)
        launch.launch([attempt.pk])
        launch.stop(attempt.pk)

    assert state(job) == "FAILED"
    assert "It does not go." in Attempt.objects.filter(job=job).last().note


def test_the_only_node_refusing_it_is_enough(alice, node_side):
    builders.node("a")
    node_side.refuses["a"] = ("no_workdir", "job")
    job, attempt = placed(alice)
    launch.launch([attempt.pk])
    launch.stop(attempt.pk)

    assert state(job) == "FAILED"


def test_one_part_refused_stops_the_others_before_they_start(alice, node_side):
    builders.node("a")
    builders.node("b")
    node_side.refuses["b"] = ("disk_full", "node")
    job, attempt = placed(alice, gpus=16, nodes=2)

    launch.launch([attempt.pk])
    launch.stop(attempt.pk)

    assert node_side.starts == 0
    assert state(job) == "PENDING"
    assert live_leases() == 0


def test_a_gang_runs_when_all_its_parts_have_started(alice, node_side):
    builders.node("a")
    builders.node("b")
    job, attempt = placed(alice, gpus=16, nodes=2)
    node_side.deaf_after = {("b", "go")}
    launch.launch([attempt.pk])
    assert state(job) == "STARTING"

    look_at_all()

    assert state(job) == "RUNNING"
    orders = [claim["order"] for claim in node_side.claims.values()]
    assert [order["first_rank"] for order in orders] == [0, 8]
    assert len({order["master_port"] for order in orders}) == 1


def test_a_failed_rank_stops_the_others_and_names_itself(alice, node_side):
    builders.node("a")
    builders.node("b")
    job, attempt = running(alice, gpus=16, nodes=2)
    node_side.end(attempt.run_id, node="b", exit=9)
    looks.look(Node.objects.get(name="b").pk)
    assert state(job) == "STOPPING"
    launch.stop(attempt.pk)
    assert node_side.claims["a", attempt.run_id]["asked"] == "rank_failed"
    node_side.end(attempt.run_id, node="a", exit=143, end="stopped")

    look_at_all()

    assert state(job) == "FAILED"
    assert "Rank 8 ended with exit code 9" in Attempt.objects.get(pk=attempt.pk).note


def test_a_cancelled_job_ends_on_its_nodes_word_only(alice, node_side):
    builders.node("a")
    job, attempt = running(alice)
    jobs.cancel(person(alice), job, at=clock.now())
    launch.stop(attempt.pk)
    look_at_all()
    assert state(job) == "STOPPING"
    assert live_leases() == 1
    node_side.end(attempt.run_id, exit=143, end="stopped")

    look_at_all()

    assert state(job) == "CANCELLED"
    assert live_leases() == 0


def test_an_exit_before_term_is_the_jobs_own_whatever_was_asked(alice, node_side):
    builders.node("a")
    job, attempt = running(alice)
    jobs.cancel(person(alice), job, at=clock.now())
    node_side.end(attempt.run_id, exit=0, exit_before_term=True)

    look_at_all()

    assert state(job) == "COMPLETED"


def test_a_placed_job_is_cancelled_without_asking_any_node(alice, node_side):
    builders.node("a")
    job, _ = placed(alice)
    jobs.cancel(person(alice), job, at=clock.now())

    assert state(job) == "CANCELLED"
    assert node_side.asked == []
    assert live_leases() == 0


def test_a_cancel_while_starting_leaves_a_tombstone_before_the_go(alice, node_side):
    builders.node("a")
    job, attempt = placed(alice)
    node_side.silent.add("a")
    launch.launch([attempt.pk])
    jobs.cancel(person(alice), job, at=clock.now())
    launch.stop(attempt.pk)
    assert state(job) == "STOPPING"
    node_side.silent.clear()

    launch.stop(attempt.pk)
    launch.launch([attempt.pk])

    assert state(job) == "CANCELLED"
    assert node_side.starts == 0


def test_silence_frees_nothing(alice, node_side):
    builders.node("a")
    job, _ = running(alice)
    node_side.silent.add("a")
    for _ in range(20):
        look_at_all()
        reconcile.reconcile()

    assert state(job) == "RUNNING"
    assert live_leases() == 1
    assert Node.objects.get().missed_looks == 20


def test_a_node_that_never_answers_loses_the_job_by_its_own_word_only(alice, node_side, settings):
    builders.node("a")
    settings.GANGWAY_LAUNCH_PATIENCE_S = 0
    job, attempt = placed(alice)
    node_side.silent.add("a")
    launch.launch([attempt.pk])
    Attempt.objects.filter(pk=attempt.pk).update(began_at=clock.now() - timedelta(minutes=5))
    reconcile.reconcile()
    assert state(job) == "STOPPING"
    launch.stop(attempt.pk)
    assert state(job) == "STOPPING"
    node_side.silent.clear()

    launch.stop(attempt.pk)

    assert state(job) == "PENDING"


def test_a_card_that_stays_dirty_is_quarantined_and_the_job_named(alice, node_side):
    builders.node("a", cards=1)
    job, attempt = running(alice)
    node_side.dirty.add("GPU-a-0")
    node_side.end(attempt.run_id)
    look_at_all()
    assert state(job) == "COMPLETED"
    assert live_leases() == 1
    Lease.objects.update(releasing_at=clock.now() - timedelta(minutes=2))

    look_at_all()

    lease = Lease.objects.get()
    assert lease.state == "quarantined"
    assert f"Job {job.pk}" in lease.card.quarantine_note
    late = builders.job(alice)
    cycle.serve()
    assert state(late) == "PENDING"


def test_a_run_the_node_has_no_trace_of_is_gone_after_its_start_was_known(alice, node_side):
    builders.node("a")
    job, _ = running(alice)
    node_side.claims.clear()

    look_at_all()

    assert state(job) == "FAILED"
    assert Attempt.objects.get(job=job).outcome == "unsupervised"
    assert live_leases() == 1
    Gpu.objects.update(seen_at=clock.now(), used_mib=3)
    look_at_all()
    assert live_leases() == 0


def test_a_run_that_no_row_knows_is_stopped(alice, node_side):
    builders.node("a")
    node_side.claims["a", "999-1-0123abcd"] = {"state": "started"}
    looks.stop_unknown(Node.objects.get().pk, "999-1-0123abcd")

    assert node_side.claims["a", "999-1-0123abcd"]["asked"] == "unknown"


def test_a_short_log_comes_along_with_the_end_and_is_kept(alice, node_side):
    builders.node("a")
    job, attempt = running(alice)
    node_side.end(attempt.run_id, log={"0": 3}, head="YWIK")

    look_at_all()

    assert state(job) == "COMPLETED"
    assert bytes(LogPiece.objects.get().data) == b"ab\n"


@pytest.mark.parametrize(
    "nonsense",
    [
        {}, {"run": 7}, {"run": "1-1-aaaaaaaa", "seq": "x"}, {"run": "x" * 99, "seq": 1},
        {"run": "0-0-00000000", "seq": 5, "state": "ended"},
        {"run": "99999999999999999999-1-00000000", "seq": 5, "state": "ended"},
    ],
)  # fmt: skip
def test_a_report_that_is_none_harms_nothing(alice, node_side, nonsense):
    node = builders.node("a")
    job, _ = running(alice)
    reports.hear(node.pk, [nonsense], at=clock.now())
    reports.take()

    assert state(job) == "RUNNING"


def test_every_end_leaves_no_live_part_and_every_job_an_end_time(alice, node_side):
    builders.node("a")
    job, attempt = running(alice)
    node_side.end(attempt.run_id, exit=1)
    look_at_all()

    assert Part.objects.get().settled_at is not None
    job.refresh_from_db()
    assert job.state in DONE
    assert job.ended_at is not None
    assert AuditEntry.objects.filter(subject=f"job {job.pk}", verb="submit").exists()
