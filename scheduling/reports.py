"""What nodes say of runs, taken once, by one path: events, looks and the answers of go and stop.

``hear`` stores (one row per node, run and seq), ``take`` applies, a batch in a transaction under
the row locks of its jobs. Old news and repeats change nothing. A run that no row knows is not
ours to keep: its node is told to stop it.
"""

import logging
import re
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import InterfaceError, OperationalError, transaction

from nodes import clock, hints
from nodes.models import RunReport

from . import checkpoints, part_facts
from .models import Attempt, Job, Part
from .states import CHARGED

log = logging.getLogger(__name__)
_RUN_ID = re.compile(r"(\d{1,18})-(\d{1,9})-([0-9a-f]{8})\Z")
MOST_AT_ONCE = 500
BATCH = 32
_turn = threading.Lock()
_asked = threading.Event()
GREATEST = 2**53


def hear(node_id: int, said: Sequence[dict[str, Any]], *, at: datetime) -> int:
    """Store a node's reports that are new; malformed ones are logged and dropped."""
    return hear_all([(node_id, one) for one in said], at=at)


def hear_all(said: Sequence[tuple[int, dict[str, Any]]], *, at: datetime) -> int:
    """``hear`` for (node, report) pairs of several nodes. One statement."""
    rows = [
        RunReport(node_id=node_id, run_id=one["run"], seq=one["seq"], body=one, heard_at=at)
        for node_id, one in said
        if _well_formed(one)
    ]
    if len(rows) < len(said):
        bad = sorted({node_id for node_id, one in said if not _well_formed(one)})
        log.warning("nodes %s sent %d reports that are none", bad, len(said) - len(rows))
    if rows:
        # first what was saved: a report of the end is judged by it
        checkpoints.take([(row.node_id, run_of(row.run_id), row.body) for row in rows], at=at)
        RunReport.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def heard(node_id: int, said: list[dict[str, Any]]) -> None:
    """The listener of the channel: store what an event said and ask for it to be taken."""
    if hear(node_id, said, at=clock.now()):
        hints.reports_soon()


def take() -> int:
    """Apply every report that was not taken yet. Safe to run twice at once. Returns how many.

    They are applied in batches, one report of a job in each. One that cannot be applied is left
    for the next call and holds up no other. One thread of a process does it at a time; who comes
    meanwhile leaves it to that one, and returns 0.
    """
    taken = 0
    _asked.set()
    # Whoever finds the turn taken has asked before, so the one at it sees that once it is through.
    while _asked.is_set() and _turn.acquire(blocking=False):
        try:
            _asked.clear()
            taken += _take_all()
        finally:
            _turn.release()
    return taken


def _take_all() -> int:
    taken = 0
    broken: list[int] = []
    while taken + len(broken) < MOST_AT_ONCE:
        try:
            count = _take_some(BATCH, broken)
        except _Broken:
            taken += _take_one_by_one(broken)
            continue
        if not count:
            break
        taken += count
    return taken


def _take_one_by_one(broken: list[int]) -> int:
    """What a batch could not take together: so the one at fault is found."""
    taken = 0
    for _ in range(BATCH):
        try:
            taken += _take_some(1, broken)
        except _Broken as one:
            log.exception("%s cannot be applied; it is tried again", one)
            broken.append(one.pk)
    return taken


class _Broken(Exception):
    """A report that could not be applied; nothing of its batch was written."""

    def __init__(self, report: RunReport) -> None:
        super().__init__(f"report {report.seq} of run {report.run_id} by node {report.node_id}")
        self.pk = report.pk


@transaction.atomic
def _take_some(most: int, broken: Sequence[int]) -> int:
    """The oldest that nobody else is taking: many takers share the work, none repeats it."""
    found = (
        RunReport.objects.select_for_update(skip_locked=True)
        .filter(taken_at__isnull=True)
        .exclude(pk__in=broken)
        .order_by("id")[:most]
    )
    first_of_each: dict[object, RunReport] = {}
    for report in found:
        # What follows for the same job is read again once this one is written.
        run = run_of(report.run_id)
        first_of_each.setdefault(run[0] if run else report.run_id, report)
    batch = list(first_of_each.values())
    if batch:
        _apply_all(batch, at=clock.now())
    return len(batch)


def _apply_all(batch: Sequence[RunReport], *, at: datetime) -> None:
    """Every report of a batch to its part; the jobs' rows are locked, in the order of their ids."""
    known = _Known(batch)
    for report in batch:
        try:
            found = known.of(report)
            if found is None:
                log.warning("node %s runs %s, which nobody knows", report.node_id, report.run_id)
                hints.unknown_run_soon(report.node_id, report.run_id)
            elif report.seq > found.part.seq:
                part_facts.apply(*found, report.body, at=at)
        except (OperationalError, InterfaceError):
            raise  # the database's matter, not the report's
        except Exception as failed:
            raise _Broken(report) from failed
    RunReport.objects.filter(pk__in=[report.pk for report in batch]).update(taken_at=at)
    gone = [job for job in known.jobs.values() if job.state not in CHARGED]
    if gone:
        hints.cycle_soon(f"{len(gone)} runs gone")


class _Found(NamedTuple):
    """What a report speaks of: the job (row locked), the part, and all parts of its attempt."""

    job: Job
    part: Part
    parts: Sequence[Part]


class _Known:
    """The rows that a batch of reports speaks of, read after their jobs were locked."""

    def __init__(self, batch: Sequence[RunReport]) -> None:
        named = {run for report in batch if (run := run_of(report.run_id))}
        jobs = Job.objects.select_for_update(of=("self",)).select_related("team").order_by("pk")
        self.jobs = jobs.in_bulk([job_id for job_id, _, _ in named])
        numbers = {number for _, number, _ in named}
        parts = Part.objects.filter(attempt__job__in=self.jobs, attempt__number__in=numbers)
        self._parts: dict[str, list[Part]] = {}
        attempts: dict[int, Attempt] = {}
        for part in parts.select_related("attempt").order_by("node_rank"):
            part.attempt = attempts.setdefault(part.attempt_id, part.attempt)
            self._parts.setdefault(part.attempt.run_id, []).append(part)

    def of(self, report: RunReport) -> _Found | None:
        """The rows that a report names, if its node has a part of that run."""
        parts = self._parts.get(report.run_id, [])
        for part in parts:
            if part.node_id == report.node_id:
                return _Found(self.jobs[part.attempt.job_id], part, parts)
        return None


def run_of(run_id: str) -> tuple[int, int, str] | None:
    """(job, attempt number, uuid's beginning) that a run id names; None if it is none."""
    match = _RUN_ID.match(run_id)
    return (int(match[1]), int(match[2]), match[3]) if match else None


def _well_formed(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("run"), str)
        and 0 < len(one["run"]) <= 64
        and isinstance(one.get("seq"), int)
        and 0 < one["seq"] < 1_000_000
        and isinstance(one.get("state"), str)
        and _storable(one)
    )


def _storable(value: Any, depth: int = 8) -> bool:
    """Can PostgreSQL keep it as JSON, and a row hold its numbers? No NUL, no NaN, not endless."""
    if isinstance(value, str):
        return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, dict):
        inside = [*value, *value.values()]
    elif isinstance(value, list):
        inside = value
    else:
        return value is None or abs(value) < GREATEST
    return depth > 0 and all(_storable(one, depth - 1) for one in inside)
