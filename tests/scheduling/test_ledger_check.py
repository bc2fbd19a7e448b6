"""check_ledger is silent while all accounts agree, and names each row that does not."""

from datetime import date, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from nodes import clock
from nodes.models import Node
from scheduling import cycle, ledger_check, looks, reports, strays
from scheduling.models import (
    Attempt,
    AuditEntry,
    Card,
    Job,
    JobLog,
    Lease,
    Part,
    Pledge,
    UnknownRun,
    UsageSum,
)
from tests import builders
from tests.scheduling.scripted import Scripted
from tests.scheduling.test_leaving import running, started


@pytest.fixture
def node_side(monkeypatch) -> Scripted:
    monkeypatch.setattr("scheduling.management.commands.check_ledger.SETTLES_S", 0)
    return Scripted(monkeypatch)


def check() -> list[str]:
    """The lines of the command; empty when it finds nothing and ends well."""
    out, err = StringIO(), StringIO()
    try:
        call_command("check_ledger", stdout=out, stderr=err)
    except CommandError as failed:
        assert failed.returncode == 1
        return err.getvalue().splitlines()
    assert out.getvalue().startswith("No difference in ")
    return []


def test_it_is_silent_through_a_jobs_whole_life(alice, node_side):
    node = builders.node("a")
    job = builders.job(alice, gpus=2)
    assert check() == []
    attempt = started(job)
    assert check() == []
    node_side.end(attempt.run_id)
    looks.look(node.pk)
    job.refresh_from_db()

    assert (job.state, check()) == ("COMPLETED", [])


def _free_a_lease_alone(job: Job) -> None:
    Lease.objects.filter(pk=Lease.objects.first().pk).update(state="freed", freed_at=clock.now())


def _turn_a_counter(job: Job) -> None:
    Card.objects.filter(leases__isnull=True).update(held_milli=1)


def _turn_a_state(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(state="STOPPING")


def _end_the_attempt_alone(job: Job) -> None:
    Attempt.objects.filter(job=job).update(ended_at=clock.now())


def _write_a_line_that_is_no_move(job: Job) -> None:
    JobLog.objects.create(
        job=job, at=clock.now(), event="place", from_state="RUNNING", to_state="RUNNING", actor="x"
    )


def _let_the_part_go_alone(job: Job) -> None:
    Part.objects.update(gone_at=clock.now())


def _turn_a_sum(job: Job) -> None:
    UsageSum.objects.create(
        team=job.team, user=job.user, gpu_model="H100", month=date(2026, 1, 1), milli_s=5
    )


def _account_for_a_part_that_was_not_charged(job: Job) -> None:
    hour = timedelta(hours=1)
    Part.objects.update(gone_at=clock.now(), accounted=True)
    Lease.objects.update(taken_at=clock.now() - hour, state="releasing")


def _keep_a_pledge_of_a_job_that_runs(job: Job) -> None:
    Pledge.objects.create(job=job, gpu_model="H100", made_at=clock.now())


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_free_a_lease_alone, ["its counters say 1000", "holds 1 cards"]),
        (_turn_a_counter, ["its counters say 1 milli-GPU"]),
        (_turn_a_state, ["it is STOPPING, its log adds up to RUNNING"]),
        (_end_the_attempt_alone, ["has 0 live attempts", "live though its attempt has ended"]),
        (_write_a_line_that_is_no_move, ["its log is broken: line"]),
        (_turn_a_sum, ["its sum says 5 milli-GPU-s, its entries 0"]),
        (_account_for_a_part_that_was_not_charged, ["is charged 0 milli-GPU-s for a life of 7"]),
        (_keep_a_pledge_of_a_job_that_runs, ["it is live and its job"]),
        (_let_the_part_go_alone, ["held though the processes", "which is over by the rows"]),
    ],
)
def test_each_account_that_differs_is_named(alice, node_side, spoil, said):
    builders.node("a")
    job, _ = running(alice, gpus=2)
    spoil(job)

    lines = check()

    for words in said:
        assert any(words in line for line in lines), (words, lines)


def test_a_node_that_says_otherwise_or_nothing_is_named(alice, node_side):
    builders.node("a")
    builders.node("b")
    _, attempt = running(alice)
    node_side.end(attempt.run_id)
    node_side.silent = {"b"}

    lines = check()

    assert [f"of {attempt.run_id}" in lines[0], "node b" in lines[1]] == [True, True]
    assert "the node says ended" in lines[0]


def unknown(node_side: Scripted, node: Node, run: str = "999-1-0123abcd") -> str:
    """A run of another life on the node's first card, as a look tells of it."""
    node_side.claims[node.name, run] = {"state": "started", "holds": [f"GPU-{node.name}-0"]}
    looks.look(node.pk)
    strays.meet(node.pk, run)
    return run


def test_a_run_nobody_knows_occupies_its_cards_and_is_left_alone(alice, node_side):
    node = builders.node("a", cards=1)
    run = unknown(node_side, node)
    job = builders.job(alice)
    cycle.serve(always=True)
    looks.look(node.pk)

    job.refresh_from_db()
    assert job.state == "PENDING"
    assert "asked" not in node_side.claims["a", run]
    assert f"stop_unknown a {run}" in check()[0]
    node_side.end(run)
    looks.look(node.pk)
    assert UnknownRun.objects.get().gone_at is not None
    started(job)
    assert check() == []


def test_an_operator_may_end_it_and_that_is_noted(alice, node_side):
    node = builders.node("a")
    run = unknown(node_side, node)

    call_command("stop_unknown", "a", run, reason="left by the old portal")

    assert node_side.claims["a", run]["asked"] == "unknown"
    noted = AuditEntry.objects.get(verb="stop unknown run")
    assert (noted.reason, noted.facts["run"]) == ("left by the old portal", run)


def test_a_run_of_a_job_is_not_ended_that_way(alice, node_side):
    builders.node("a")
    job, attempt = running(alice)

    with pytest.raises(CommandError, match=f"of job {job.pk}"):
        call_command("stop_unknown", "a", attempt.run_id, reason="x")
    with pytest.raises(CommandError, match="no node 'z'"):
        call_command("stop_unknown", "z", attempt.run_id, reason="x")


def test_an_unknown_run_that_never_started_never_will(alice, node_side):
    node = builders.node("a")
    run = "999-1-0123abcd"
    node_side.claims["a", run] = {"state": "prepared"}

    strays.meet(node.pk, run)

    assert node_side.claims["a", run]["state"] == "refused"
    assert not UnknownRun.objects.exists()


def test_a_report_of_an_unknown_run_is_taken_once(alice, node_side):
    node = builders.node("a")
    unknown(node_side, node)

    assert reports.take() == 0
    assert ledger_check.of_rows() == []
