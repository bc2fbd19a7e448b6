"""Logs are the job's bytes: read whole, from a place, as they grow, over a wire that breaks."""

import hashlib

import pytest
from django.db import transaction

from nodes.errors import NodeUnreachable
from nodes.reads import TooManyReaders
from portal.client import config
from scheduling import leases
from scheduling.actors import CYCLE
from scheduling.models import Attempt, Job, LogPiece, Part
from scheduling.states import JobEvent
from scheduling.transitions import move
from tests import builders
from tests.client.flaky import Flaky, dice

pytestmark = pytest.mark.django_db(transaction=True)

MIB = 1024 * 1024


@pytest.fixture
def running(alice):
    """A running job with one attempt; what its node would say is the story's."""
    node, job = builders.node("n1"), builders.job(alice)
    move(CYCLE, job, JobEvent.PLACE, at=job.submitted_at, note="")
    _attempt(job, node, 1)
    Job.objects.filter(pk=job.pk).update(state="RUNNING")
    return job


def _attempt(job: Job, node, number: int) -> Part:
    at = job.submitted_at
    card = node.gpus.order_by("index")[number].card
    attempt = Attempt.objects.create(job=job, number=number, placed_at=at, started_at=at)
    part = Part.objects.create(
        attempt=attempt,
        node=node,
        ranks=1,
        cpus=1,
        memory_mib=1,
        port=29400 + number,
        started_at=at,
    )
    with transaction.atomic():
        leases.take(part, [card.pk], at=at)
    return part


def _end(job: Job, state: str = "COMPLETED") -> None:
    now = job.submitted_at
    Part.objects.filter(attempt__job=job).update(gone_at=now)
    Attempt.objects.filter(job=job).update(ended_at=now)
    Job.objects.filter(pk=job.pk).update(state=state, ended_at=now)


class GrowingLog:
    """A node's file that grows by a bit at each look, and a node that is not always there."""

    def __init__(self, job: Job, data: bytes, seed: int, *, trouble: bool = False) -> None:
        self.job, self.data, self.size = job, data, 0
        self.chance, self.trouble = dice(seed), trouble

    def tail(self, node, run_id, *, rank, offset, limit, **more):
        if self.trouble and self.chance.random() < 0.1:
            raise self.chance.choice([TooManyReaders, NodeUnreachable])("Busy.", next_step="Wait.")
        at = max(self.size + offset, 0) if offset < 0 else min(offset, self.size)
        answer = self.data[at : min(at + limit, self.size)]
        self.size = min(self.size + self.chance.choice((0, 1, 70_000, 200_000)), len(self.data))
        if self.size == len(self.data):
            _end(self.job)
        return answer, at, max(self.size, at + len(answer))


def test_a_log_is_followed_byte_for_byte_while_it_grows(
    gangway, signed_in, running, monkeypatch, no_pauses
):
    data = dice(1).randbytes(4 * MIB)
    monkeypatch.setattr("nodes.reads.tail", GrowingLog(running, data, 2).tail)

    ran = gangway("logs", "-f", str(running.pk))

    assert (ran.code, ran.err) == (0, "")
    assert hashlib.sha256(ran.raw).digest() == hashlib.sha256(data).digest()
    assert all(0.2 <= pause <= 2.0 for pause in no_pauses)


def test_nothing_is_lost_or_doubled_over_a_wire_that_breaks_and_a_node_that_is_busy(
    gangway, live_server, signed_in, running, monkeypatch, no_pauses
):
    data = dice(3).randbytes(2 * MIB)
    monkeypatch.setattr("nodes.reads.tail", GrowingLog(running, data, 4, trouble=True).tail)
    chance = dice(5)
    wire = Flaky(live_server.url, (chance.choice((0, 300, 9_000, 150_000)) for _ in range(60)))
    monkeypatch.setenv("GANGWAY_TOKEN", config.load().token)
    monkeypatch.setenv("GANGWAY_URL", wire.url)

    ran = gangway("logs", "-f", str(running.pk))
    wire.close()

    assert ran.code == 0, ran.err
    assert wire.cut > 10
    assert hashlib.sha256(ran.raw).digest() == hashlib.sha256(data).digest()


def test_following_goes_on_with_the_next_attempt(gangway, signed_in, running, monkeypatch):
    first, second = b"first\n" * 3, b"second\n" * 3
    logs = {1: first, 2: second}

    def tail(node, run_id, *, rank, offset, limit, **more):
        data = logs[int(run_id.split("-")[1])]
        return data[offset:], min(offset, len(data)), len(data)

    def sleep(seconds):
        """The first attempt ends and the second begins and ends, while the reader pauses."""
        if running.attempts.count() == 1:
            Part.objects.update(gone_at=running.submitted_at)
            Attempt.objects.update(ended_at=running.submitted_at)
            _attempt(running, running.attempts.get().parts.get().node, 2)
        else:
            _end(running)

    monkeypatch.setattr("nodes.reads.tail", tail)
    monkeypatch.setattr("time.sleep", sleep)

    ran = gangway("logs", "-f", str(running.pk))

    assert (ran.code, ran.raw) == (0, first + second)


def test_a_kept_log_is_read_whole_or_from_a_place(gangway, signed_in, running):
    data = bytes(range(256)) * 600
    LogPiece.objects.create(attempt=running.attempts.get(), rank=0, offset=0, data=data)
    _end(running)
    job_id = str(running.pk)

    assert gangway("logs", job_id).raw == data
    assert gangway("logs", job_id, "--offset", "100000").raw == data[100000:]
    assert gangway("logs", job_id, "--tail", "70000").raw == data[-70000:]
    assert gangway("logs", job_id, "--attempt", "1", "--rank", "0").raw == data
    assert "no attempt 2" in gangway("logs", job_id, "--attempt", "2").err


def test_a_gap_in_a_kept_log_is_told_beside_it(gangway, signed_in, running):
    attempt = running.attempts.get()
    LogPiece.objects.create(attempt=attempt, rank=0, offset=0, data=b"a" * 1000)
    LogPiece.objects.create(attempt=attempt, rank=0, offset=5000, data=b"z" * 1000)
    _end(running)

    ran = gangway("logs", str(running.pk))

    assert ran.raw == b"a" * 1000 + b"z" * 1000
    assert "[bytes 1000 to 5000 of this log were not kept]" in ran.err


def test_submit_and_follow_ends_with_the_code_of_the_job(gangway, signed_in, shop, monkeypatch):
    node = builders.node("n2")

    def sleep(seconds):
        job = Job.objects.get()
        if job.state == "PENDING":
            _attempt(job, node, 1)
            Job.objects.filter(pk=job.pk).update(state="RUNNING")
        else:
            _end(job, "FAILED")

    def tail(node, run_id, *, rank, offset, limit, **more):
        return b"hello\n"[offset:], min(offset, 6), 6

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("nodes.reads.tail", tail)

    ran = gangway("submit", "--follow", "--", "false")

    assert (ran.code, ran.raw) == (1, b"hello\n")
    assert "has ended: FAILED" in ran.err
