"""The table of moves: every event in every state, and the one writer that obeys it."""

import pytest
from django.db import DatabaseError, transaction

from nodes import clock
from scheduling.actors import COMMAND
from scheduling.models import AuditEntry, Job, JobLog
from scheduling.states import CHARGED, DONE, LIVE, MOVES, STRENGTH, JobEvent, JobState, StopReason
from scheduling.transitions import move
from tests import builders


def test_nothing_leaves_an_end():
    assert [pair for pair in MOVES if pair[0] in DONE] == []


def test_every_state_is_reached_from_pending():
    reached, edge = {JobState.PENDING}, {JobState.PENDING}
    while edge:
        edge = {to for (origin, _), to in MOVES.items() if origin in edge} - reached
        reached |= edge
    assert reached == set(JobState)


def test_every_state_that_is_no_end_can_be_left():
    assert {origin for origin, _ in MOVES} == set(JobState) - DONE


def test_a_job_holding_gpus_never_waits_again_but_through_cleaning_or_before_a_byte_left():
    back = {origin for (origin, _), to in MOVES.items() if to == JobState.PENDING}
    assert back & LIVE == {JobState.PLACED, JobState.CLEANING}


def test_cleaning_is_charged_to_nobody():
    assert {JobState.CLEANING} == LIVE - CHARGED


def test_a_cancel_beats_every_other_reason_to_stop():
    assert max(STRENGTH, key=STRENGTH.__getitem__) == StopReason.CANCEL
    assert set(STRENGTH) == set(StopReason)


@pytest.mark.parametrize("event", JobEvent)
@pytest.mark.parametrize("state", JobState)
def test_every_event_in_every_state_obeys_the_table(alice, state, event):
    now = clock.now()
    job = builders.row(alice, state=state)
    target = MOVES.get((state, event))

    assert move(COMMAND, job, event, at=now) is (target is not None)

    job.refresh_from_db()
    assert job.state == (target or state)
    assert JobLog.objects.filter(job=job).count() == (target is not None)
    assert (job.ended_at is not None) == (job.state in DONE)


def test_a_move_from_where_the_caller_no_longer_sees_it_is_none(alice):
    job = builders.row(alice)
    stale = Job.objects.get(pk=job.pk)
    move(COMMAND, job, JobEvent.HOLD, at=clock.now())

    assert move(COMMAND, stale, JobEvent.PLACE, at=clock.now()) is False
    assert JobLog.objects.count() == 1


@pytest.mark.parametrize("model", [JobLog, AuditEntry])
def test_logs_are_only_added_to(alice, model):
    builders.node("a")
    builders.job(alice)
    with pytest.raises(DatabaseError), transaction.atomic():
        model.objects.update(actor="nobody")
    with pytest.raises(DatabaseError), transaction.atomic():
        model.objects.all()._raw_delete("default")
    assert not model.objects.filter(actor="nobody").exists()
    assert model.objects.filter(actor="alice").exists()
