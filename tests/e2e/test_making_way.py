"""Real jobs that are asked to make way: what their own logs show, and where they go on."""

import json
import re
import time
from pathlib import Path

import pytest
from django.db import transaction

from nodes import channel, clock, hearing
from scheduling import launch, reports
from scheduling.actors import CYCLE, person
from scheduling.models import Attempt, Job, Lease, Part
from scheduling.services import jobs
from scheduling.states import StopReason
from scheduling.stopping import ask_to_stop
from scheduling.transitions import locked
from tests import builders
from tests.e2e.conftest import look, step
from tests.e2e.test_one_job import alive, kept
from tests.nodes.machines import until

pytestmark = pytest.mark.needs("sshd")

TRAINER = """\
#!/usr/bin/env python3
import json, os, signal, subprocess, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
place, evidence = os.environ["PLACE"], os.environ["EVIDENCE"]

def tell(*words):
    subprocess.run(["gangway-job", *words], start_new_session=True, check=True)

def save(step):
    tell("checkpoint", "begin", "--step", str(step))
    with open(f"{place}/{step}.part", "w") as file:
        json.dump({"step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{place}/{step}.part", f"{place}/{step}")
    tell("checkpoint", "done", "--step", str(step), "--path", f"{place}/{step}")

step = 0
if "GANGWAY_CHECKPOINT_PATH" in os.environ:
    step = json.load(open(os.environ["GANGWAY_CHECKPOINT_PATH"]))["step"]
out = open(evidence, "a")
while step < int(os.environ["STEPS"]):
    time.sleep(0.02)
    index = step * 7919 % 1009
    out.write(f"{os.environ['GANGWAY_ATTEMPT']} {step} {index}\\n")
    out.flush()
    step += 1
    if asked and os.environ.get("SAVES") != "no":
        save(step)
        raise SystemExit(0)
    if step % 10 == 0:
        save(step)
"""


def make_way(job: Job, **how) -> None:
    with transaction.atomic():
        ask_to_stop(CYCLE, locked(job.pk), StopReason.PREEMPT, at=clock.now(), **how)
    attempt = Attempt.objects.get(job=job, ended_at=None)
    launch.stop(attempt.pk)


def steps_of(evidence: Path) -> list[tuple[int, int, int]]:
    if not evidence.exists():
        return []
    rows = [line.split() for line in evidence.read_text().splitlines()]
    return [(int(a), int(b), int(c)) for a, b, c in rows]


def restarted(drive, job: Job, number: int) -> Attempt:
    """The job runs again, in its attempt with this number."""
    until(
        lambda: step() or Attempt.objects.filter(job=job, number=number, started_at__isnull=False),
        what=f"attempt {number} runs",
    )
    return Attempt.objects.get(job=job, number=number)


def test_who_saves_leaves_early_and_goes_on_from_there(alice, bob, nodes, drive, tmp_path):
    evidence = tmp_path / "evidence"
    env = {"PLACE": str(tmp_path), "EVIDENCE": str(evidence), "STEPS": "120"}
    job = builders.job(alice, gpus=2, command=TRAINER, env=env, grace_s=120)
    drive(job, "RUNNING")
    until(lambda: len(steps_of(evidence)) > 15, what="it has made some steps")
    urgent = builders.row(bob, state="HELD")

    asked_s = time.monotonic()
    make_way(job, by=urgent)
    until(lambda: reports.take() or gone(job), what="it has left")
    left_s = time.monotonic() - asked_s
    drive(job)

    first = Attempt.objects.get(job=job, number=1)
    assert left_s < 10  # of a window of 120
    assert (first.outcome, first.stop_by_job) == ("preempted", urgent)
    assert first.saved_step > 15
    assert re.search(r"; checkpoint step \d+ saved after \d s; \d GPU-seconds lost\.$", first.note)
    log = b"".join(bytes(piece.data) for piece in first.log_pieces.all()).decode()
    assert f"gangway: preempted by job {urgent.pk} (team vision, priority normal) at " in log
    assert job.state == "COMPLETED"
    undisturbed = [(number, number * 7919 % 1009) for number in range(120)]
    assert [(number, index) for _, number, index in steps_of(evidence)] == undisturbed


def gone(job: Job) -> bool:
    return Attempt.objects.filter(job=job, number=1, ended_at__isnull=False).exists()


def test_many_interruptions_leave_the_same_steps_as_none(alice, nodes, drive, tmp_path):
    """Asked politely or cut off, at odd moments: each step after the last saved one runs once."""
    evidence = tmp_path / "evidence"
    env = {"PLACE": str(tmp_path), "EVIDENCE": str(evidence), "STEPS": "400", "SAVES": "no"}
    job = builders.job(alice, command=TRAINER, env=env, grace_s=5)
    Job.objects.filter(pk=job.pk).update(grace_s=0)  # no window at all: every second one is cut
    for number in range(1, 9):
        attempt = restarted(drive, job, number)
        begun = len(steps_of(evidence))
        until(
            lambda begun=begun, number=number: len(steps_of(evidence)) >= begun + 7 + number * 3,
            what="some steps",
        )
        make_way(job)
        until(
            lambda attempt=attempt: (
                reports.take() or Attempt.objects.get(pk=attempt.pk).ended_at is not None
            ),
            what="it has left",
        )
    drive(job, within_s=60)

    assert job.state == "COMPLETED"
    attempts = Attempt.objects.filter(job=job).values_list("number", "resumed_step")
    resumed = {number: begin or 0 for number, begin in attempts}
    executed = steps_of(evidence)
    for number, begin in resumed.items():
        of_attempt = [s for attempt, s, _ in executed if attempt == number]
        assert of_attempt == list(range(begin, begin + len(of_attempt)))
    # what a later attempt went back behind was lost; what counts is each step, once, in order
    counts = [
        (number, index)
        for attempt, number, index in executed
        if all(number < begin for later, begin in resumed.items() if later > attempt)
    ]
    assert counts == [(number, number * 7919 % 1009) for number in range(400)]


DEAF = """\
#!/usr/bin/env python3
import os, signal, time
def heard(*_):
    print("TERM", time.time(), flush=True)
signal.signal(signal.SIGTERM, heard)
if os.fork() == 0:
    os.setsid()
    os.environ.clear()
print("up", flush=True)
while True:
    print("alive", time.time(), flush=True)
    time.sleep(0.02)
"""


def test_the_window_is_whole_though_every_process_of_the_portal_dies(alice, nodes, drive, tmp_path):
    """Its own log shows TERM at once, no KILL before the deadline, and nothing left after it."""
    job = builders.job(alice, command=DEAF, grace_s=5)
    drive(job, "RUNNING")
    part = Part.objects.select_related("node", "attempt").get(attempt__job=job)
    folder = Path(part.node.root) / "runs" / part.attempt.run_id
    until(lambda: b"up" in (folder / "out.log").read_bytes(), what="it is up")
    asked_s = time.time()
    make_way(job)
    hearing.listen(None)
    channel.close_all()  # nobody speaks with the node for the whole window

    until((folder / "ended.json").exists, within_s=20, what="the node ends it by itself")

    words = [line.split() for line in (folder / "out.log").read_text().splitlines()]
    heard = [float(w[1]) for w in words if w[0] == "TERM"]
    last = max(float(w[1]) for w in words if w[0] == "alive")
    deadline = json.loads((folder / "stopping.json").read_text())["deadline_at_s"]
    assert 0 <= min(heard) - asked_s < 1
    assert abs(deadline - min(heard) - 5) < 0.2
    assert abs(last - min(heard) - 5) < 0.2
    assert not alive(str(folder))
    hearing.listen(reports.heard)
    look()
    drive(job, "PENDING", "PLACED", "STARTING", "RUNNING")
    assert b"; window 5 s; no checkpoint" in kept(job)
    assert not Lease.objects.filter(part=part, freed_at=None).exists()
    Job.objects.filter(pk=job.pk).update(grace_s=0)
    jobs.cancel(person(alice), job, at=clock.now())
    assert drive(job).state == "CANCELLED"
