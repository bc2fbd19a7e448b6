"""Cards change hands over real sshd: a low job saves and leaves for a high one, then returns."""

import time
from pathlib import Path

import pytest

from nodes.models import Node
from scheduling.models import Attempt, Pledge
from tests import builders
from tests.nodes.machines import until

pytestmark = pytest.mark.needs("sshd")

LOW = """\
echo "low $GANGWAY_ATTEMPT starts $(date +%s.%N)" >> "$EVIDENCE"
trap 'sleep 2; echo "low $GANGWAY_ATTEMPT leaves $(date +%s.%N)" >> "$EVIDENCE"; exit 90' TERM
[ "$GANGWAY_ATTEMPT" = 1 ] || exit 0
while :; do sleep 1000 & wait $!; done
"""
HIGH = 'echo "high 1 starts $(date +%s.%N)" >> "$EVIDENCE"'


def told(evidence: Path) -> list[tuple[str, float]]:
    lines = evidence.read_text().splitlines() if evidence.exists() else []
    return [(line.rsplit(" ", 1)[0], float(line.rsplit(" ", 1)[1])) for line in lines]


def test_the_winner_starts_when_the_victim_has_left_and_the_victim_comes_back(
    alice, bob, nodes, drive, evidence
):
    Node.objects.filter(name="b").update(accepts_work=False)
    env = {"EVIDENCE": str(evidence)}
    low = builders.job(alice, gpus=8, priority="low", command=LOW, env=env, grace_s=120)
    drive(low, "RUNNING")
    until(lambda: told(evidence), what="the low job has set its trap")
    time.sleep(0.3)
    high = builders.job(bob, gpus=8, priority="high", command=HIGH, env=env)

    drive(high)
    drive(low)

    happened = told(evidence)
    assert [what for what, _ in happened] == [
        "low 1 starts",
        "low 1 leaves",
        "high 1 starts",
        "low 2 starts",
    ]
    handed_s = happened[2][1] - happened[1][1]
    # Of a window of 120 s. The hand that drives goes round once in a while; workers are quicker.
    assert handed_s < 5
    assert (high.state, low.state) == ("COMPLETED", "COMPLETED")
    first = Attempt.objects.get(job=low, number=1)
    assert (first.outcome, first.stop_by_job) == ("preempted", high)
    assert first.note.startswith(f"preempted by job {high.pk} (team speech, priority high)")
    assert Pledge.objects.get().why_ended == "started"


def test_who_ignores_the_signal_is_killed_at_the_end_of_its_window_and_not_before(
    alice, bob, nodes, drive, evidence
):
    Node.objects.filter(name="b").update(accepts_work=False)
    env = {"EVIDENCE": str(evidence)}
    deaf = "trap '' TERM; echo up >> $EVIDENCE.up; while :; do sleep 0.2; done"
    low = builders.job(alice, gpus=8, priority="low", command=deaf, env=env, grace_s=5)
    drive(low, "RUNNING")
    until(lambda: Path(f"{evidence}.up").exists(), what="it ignores TERM")
    high = builders.job(bob, gpus=8, priority="high", command=HIGH, env=env)
    asked_at = time.time()

    drive(high)

    assert 5 <= told(evidence)[0][1] - asked_at < 12
