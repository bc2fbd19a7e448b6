"""A preemption as its two sides read it: who leaves says for whom, who waits says for what."""

from datetime import UTC, datetime

from scheduling import cycle, launch
from scheduling.models import Attempt, Quota
from tests import builders
from tests.scheduling.scripted import Scripted


def test_the_victim_reads_for_whom_and_until_when_the_winner_for_what(
    alice, bob, client_of, monkeypatch
):
    Scripted(monkeypatch)
    Quota.objects.all().delete()
    builders.node("a", cards=4)
    victim = builders.job(alice, gpus=4, priority="low", grace_s=120)
    cycle.serve()
    launch.launch([Attempt.objects.get(job=victim).pk])
    winner = builders.job(bob, gpus=4, priority="high")
    cycle.serve()
    asked_at = datetime(2026, 12, 2, 12, 1, 10, tzinfo=UTC)
    Attempt.objects.filter(job=victim).update(stop_asked_at=asked_at, saved_step=1200)
    cycle.serve(always=True)

    seen = client_of(alice).get(f"/jobs/{victim.pk}/").content.decode()
    listed = client_of(alice).get("/jobs/").content.decode()
    waits = client_of(bob).get(f"/jobs/{winner.pk}/").content.decode()

    cause = f"preempted by job {winner.pk} (team speech, priority high)"
    assert (
        f"{cause} at 12:01:10 UTC; its window of 120 s ends at 12:03:10 UTC. "
        "Saved so far: step 1,200." in seen
    )
    assert cause in listed
    told = f"4 GPUs of job {victim.pk} on a leave by 12:03:10 UTC, then it starts."
    assert told in waits
    assert told in client_of(bob).get("/jobs/").content.decode()
