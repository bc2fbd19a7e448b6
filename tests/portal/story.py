"""A job's life without machines: placed by the real cycle, moved by what its nodes would report."""

import base64
from typing import Any

from nodes import clock
from nodes.models import Gpu
from scheduling import cycle, reports
from scheduling.actors import LAUNCH
from scheduling.models import Attempt, Job, Part
from scheduling.states import JobEvent
from scheduling.transitions import move


def placed(job: Job) -> Job:
    """Let a cycle look; the job takes its cards if they are free."""
    cycle.serve(always=True)
    return again(job)


def begun(job: Job) -> Job:
    """Placed, and its nodes are being told."""
    job = placed(job)
    attempt = job.attempts.get(ended_at=None)
    move(LAUNCH, job, JobEvent.BEGIN, at=clock.now(), attempt=attempt.number)
    return again(job)


def running(job: Job) -> Job:
    """Every node said that it started."""
    job = begun(job)
    for part in _parts(job):
        _hear(part, 3, state="started")
    return again(job)


def ended(job: Job, *, exit_code: int = 0, log: bytes = b"", ran_s: float = 61.0) -> Job:
    """Every node said that it is gone, its log came along, and its cards are clean."""
    for part in _parts(job):
        cards = Gpu.objects.filter(card__leases__part=part).values_list("uuid", flat=True)
        _hear(
            part,
            5,
            state="ended",
            end="exited",
            exit=exit_code,
            ran_s=ran_s,
            log={str(part.first_rank): len(log)},
            head=base64.b64encode(log).decode(),
            cards={uuid: {"clean": True} for uuid in cards},
        )
    return again(job)


def again(job: Job) -> Job:
    """The job as it is now."""
    return Job.objects.get(pk=job.pk)


def attempt(job: Job) -> Attempt:
    """Its newest attempt."""
    return job.attempts.latest("number")


def _parts(job: Job) -> list[Part]:
    return list(Part.objects.filter(attempt=attempt(job)).select_related("attempt"))


def _hear(part: Part, seq: int, **said: Any) -> None:
    at = clock.now()
    report = {"run": part.attempt.run_id, "seq": seq, "boot_id": "boot-1", **said}
    reports.hear(part.node_id, [report], at=at)
    reports.take()
