"""What a run leaves on a card, and what no kill ends: named, with whose it is."""

from datetime import timedelta

import pytest

from nodes import clock
from scheduling import ledger_check, looks
from scheduling.models import Attempt, AuditEntry, Card, Job, Lease
from tests import builders
from tests.scheduling.scripted import Scripted
from tests.scheduling.test_leaving import look, running


@pytest.fixture
def node_side(monkeypatch) -> Scripted:
    return Scripted(monkeypatch)


def test_a_card_that_does_not_get_clean_names_job_user_process_and_what_it_waits_for(
    alice, node_side, monkeypatch
):
    builders.node("a")
    job, attempt = running(alice)
    uuid = Lease.objects.get().card.gpu.uuid
    process = {"pid": 812, "user": "alice", "name": "python", "state": "D", "wchan": "nv_wait"}
    dirty = {uuid: {"clean": False, "used_mib": 39000, "pids": [process]}}
    monkeypatch.setattr(node_side, "cards", lambda node, run: dirty)
    node_side.end(attempt.run_id)
    look()
    job.refresh_from_db()
    assert job.state == "COMPLETED"  # its own end never waits for a card

    Lease.objects.update(releasing_at=clock.now() - timedelta(seconds=61))
    look()

    note = Card.objects.get(quarantined_at__isnull=False).quarantine_note
    assert note == (
        f"Job {job.pk} ({attempt.run_id}) of alice left 39000 MiB in use by pid 812 of alice "
        "(python, state D in nv_wait) 60 s after its end."
    )
    noted = AuditEntry.objects.get(verb="quarantine")
    assert (noted.subject, noted.reason, noted.team) == (f"card {uuid}", note, job.team)
    assert noted.facts == {"job": job.pk, "user": "alice", "node": "a"}
    assert ledger_check.of_rows() == []


def test_a_process_that_no_kill_ends_is_named_once_and_keeps_its_cards(alice, node_side):
    node = builders.node("a")
    job, attempt = running(alice)
    stuck = [{"pid": 7, "name": "python", "state": "D", "wchan": "nv_wait"}, "nonsense"]
    node_side.claims["a", attempt.run_id]["stuck"] = stuck
    for _ in range(3):
        looks.look(node.pk)

    assert Attempt.objects.get(pk=attempt.pk).note == (
        "KILL does not end pid 7 (python, state D in nv_wait) on a; its cards stay held."
    )
    assert AuditEntry.objects.filter(verb="stuck", subject=f"job {job.pk}").count() == 1
    assert Job.objects.get(pk=job.pk).state == "RUNNING"
    assert Lease.objects.get().state == "held"
