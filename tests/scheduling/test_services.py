"""What a person may do to jobs, teams and quotas: what follows, what is refused, what is noted."""

import pytest
from django.core.management import CommandError, call_command

from nodes import clock
from nodes.models import Node, Wake
from scheduling import cycle, queries
from scheduling.actors import person
from scheduling.errors import InvalidOrder, NeverFits, NotFound, WrongState
from scheduling.models import AuditEntry, Job, JobLog, Quota, Team
from scheduling.reasons import sentences
from scheduling.services import jobs
from scheduling.services.nodes import clear_alarm, set_accepts_work
from scheduling.services.quotas import save_quota
from scheduling.services.teams import save_team
from tests import builders


def test_a_submit_writes_the_job_its_first_log_line_an_audit_entry_and_a_wake(alice):
    builders.node("a")
    Wake.objects.all().delete()
    job = builders.job(alice)

    assert JobLog.objects.get(job=job).to_state == "PENDING"
    assert AuditEntry.objects.get(subject=f"job {job.pk}").actor == "alice"
    assert Wake.objects.count() == 1


@pytest.mark.parametrize(
    ("ask", "largest", "field"),
    [
        ({"gpus": 9}, "8", "gpus"),
        ({"gpu_memory_mib": 90 * 1024}, "79", "gpu_memory_gib"),
        ({"gpu_model": "V100"}, "V100", "gpu_model"),
    ],
)
def test_what_no_node_could_ever_hold_is_refused_with_the_largest_that_could(
    alice, ask, largest, field
):
    builders.node("a")
    with pytest.raises(NeverFits, match=largest) as refusal:
        builders.job(alice, **ask)
    assert set(refusal.value.fields) == {field}
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        ({"team": "lab"}, "team"),
        ({"team": "nobody"}, "team"),
        ({"pool": "moon"}, "pool"),
        ({"priority": "urgent"}, "priority"),
        ({"time_limit_s": 8 * 24 * 3600}, "time_limit"),
        ({"grace_s": 601}, "checkpoint"),
        ({"grace_s": 1}, "checkpoint"),
    ],
)
def test_what_the_rules_do_not_know_is_refused_by_its_field(alice, ask, field):
    builders.node("a")
    with pytest.raises(InvalidOrder) as refusal:
        builders.job(alice, **ask)
    assert set(refusal.value.fields) == {field}


def test_a_held_job_is_not_placed_until_it_is_released(alice):
    builders.node("a")
    job = builders.job(alice)
    jobs.hold(person(alice), job, at=clock.now(), reason="later")
    cycle.serve()
    job.refresh_from_db()
    assert job.state == "HELD"
    assert "held" in sentences(job)[0]

    jobs.release(person(alice), job, at=clock.now())
    cycle.serve()

    job.refresh_from_db()
    assert job.state == "PLACED"


def test_a_hold_on_a_job_that_has_gpus_is_refused_with_the_next_step(alice):
    builders.node("a")
    job = builders.job(alice)
    cycle.serve()
    with pytest.raises(WrongState, match="Cancel it instead"):
        jobs.hold(person(alice), job, at=clock.now())


def test_a_job_that_ended_cannot_be_cancelled_again(alice):
    builders.node("a")
    job = builders.job(alice)
    jobs.cancel(person(alice), job, at=clock.now())
    with pytest.raises(WrongState, match="ended already"):
        jobs.cancel(person(alice), job, at=clock.now())


def test_children_never_sum_above_their_parents_nominal(root, shop):
    lab = shop.teams["lab"]
    save_quota(
        person(root), Quota(team=lab, nominal_milli=40_000, borrowing_limit_milli=0), at=clock.now()
    )
    quota = Quota.objects.get(team=shop.teams["vision"])
    quota.nominal_milli = 25_000
    with pytest.raises(InvalidOrder, match="41"):
        save_quota(person(root), quota, at=clock.now())


def test_a_team_is_never_below_itself_and_never_below_one_with_jobs(alice, root, shop):
    builders.node("a")
    builders.job(alice)
    lab = shop.teams["lab"]
    lab.parent = shop.teams["vision"]
    with pytest.raises(InvalidOrder):
        save_team(person(root), lab, at=clock.now())
    with pytest.raises(InvalidOrder, match="has jobs"):
        save_team(person(root), Team(name="inner", parent=shop.teams["vision"]), at=clock.now())


def test_lowering_a_limit_stops_nobody_and_places_nothing_more(alice, root, shop):
    builders.node("a")
    first = builders.job(alice, gpus=4)
    cycle.serve()
    quota = Quota.objects.get(team=shop.teams["vision"])
    quota.nominal_milli = 2_000
    save_quota(person(root), quota, at=clock.now())
    with pytest.raises(NeverFits):
        builders.job(alice, gpus=3)
    second = builders.job(alice, gpus=1)
    cycle.serve()

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == ("PLACED", "PENDING")


def test_a_foreign_job_is_not_found(alice, bob, shop):
    builders.node("a")
    job = builders.job(bob)
    mine = queries.Viewer(alice.pk, frozenset([shop.teams["vision"].pk]))
    with pytest.raises(NotFound):
        queries.job(mine, job.pk)
    assert queries.jobs(mine) == []


def test_what_an_operator_does_to_a_node_is_noted_with_the_reason(root):
    node = builders.node("a", alarm="The host key changed.")
    clear_alarm(person(root), node, at=clock.now(), reason="reinstalled")
    set_accepts_work(person(root), node, False, at=clock.now(), reason="new fans")

    node = Node.objects.get()
    assert (node.alarm, node.accepts_work) == ("", False)
    noted = AuditEntry.objects.filter(subject="node a", actor="root")
    assert set(noted.values_list("verb", "reason")) == {
        ("clear alarm", "reinstalled"),
        ("cordon", "new fans"),
    }


def test_an_alarm_is_cleared_on_the_command_line_with_a_reason(shop, capsys):
    builders.node("a", alarm="The host key changed.")
    call_command("clear_alarm", "a", reason="reinstalled")
    assert Node.objects.get().alarm == ""
    assert "The host key changed." in capsys.readouterr().out
    with pytest.raises(CommandError, match="Known: a"):
        call_command("clear_alarm", "b", reason="?")
