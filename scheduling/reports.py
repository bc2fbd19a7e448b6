"""What nodes say of runs, taken once, by one path: events, looks and the answers of go and stop.

``hear`` stores (one row per node, run and seq), ``take`` applies, each report in a transaction
of its own under its job's row lock. Old news and repeats change nothing. A run that no row knows
is not ours to keep: its node is told to stop it.
"""

import logging
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, transaction

from nodes import clock, hints
from nodes.models import RunReport

from . import part_facts
from .models import Job, Part

log = logging.getLogger(__name__)
_RUN_ID = re.compile(r"(\d{1,18})-(\d{1,9})-([0-9a-f]{8})\Z")
MOST_AT_ONCE = 500
GREATEST = 2**53


def hear(node_id: int, said: Sequence[dict[str, Any]], *, at: datetime) -> int:
    """Store reports that are new; malformed ones are logged and dropped. One statement."""
    rows = [
        RunReport(node_id=node_id, run_id=one["run"], seq=one["seq"], body=one, heard_at=at)
        for one in said
        if _well_formed(one)
    ]
    if len(rows) < len(said):
        log.warning("node %s sent %d reports that are none", node_id, len(said) - len(rows))
    RunReport.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def heard(node_id: int, said: list[dict[str, Any]]) -> None:
    """The listener of the channel: store what an event said and ask for it to be taken."""
    if hear(node_id, said, at=clock.now()):
        hints.reports_soon()


def take() -> int:
    """Apply every report that was not taken yet. Safe to run twice at once. Returns how many.

    One that cannot be applied is left for the next call and holds up no other.
    """
    taken = 0
    broken: list[int] = []
    while taken + len(broken) < MOST_AT_ONCE:
        try:
            if not _take_next(broken):
                break
            taken += 1
        except _Broken as report:
            log.exception("%s cannot be applied; it is tried again", report)
            broken.append(report.pk)
    return taken


class _Broken(Exception):
    """A report that could not be applied; nothing of it was written."""

    def __init__(self, report: RunReport) -> None:
        super().__init__(f"report {report.seq} of run {report.run_id} by node {report.node_id}")
        self.pk = report.pk


@transaction.atomic
def _take_next(broken: Sequence[int]) -> bool:
    """The oldest that nobody else is taking: many takers share the work, none repeats it."""
    report = (
        RunReport.objects.select_for_update(skip_locked=True)
        .filter(taken_at__isnull=True)
        .exclude(pk__in=broken)
        .order_by("id")
        .first()
    )
    if report is None:
        return False
    try:
        _apply(report, at=clock.now())
    except (OperationalError, InterfaceError):
        raise  # the database's matter, not the report's
    except Exception as failed:
        raise _Broken(report) from failed
    return True


def _apply(report: RunReport, *, at: datetime) -> None:
    found = _part(report)
    if found is None:
        log.warning("node %s runs %s, which nobody knows", report.node_id, report.run_id)
        hints.stop_unknown_soon(report.node_id, report.run_id)
    else:
        job, part = found
        if report.seq > part.seq:
            part_facts.apply(job, part, report.body, at=at)
    RunReport.objects.filter(pk=report.pk).update(taken_at=at)


def _part(report: RunReport) -> tuple[Job, Part] | None:
    """The job (its row locked) and the part that a run id names, if this node has it."""
    match = _RUN_ID.match(report.run_id)
    if match is None:
        return None
    job_id, number, _ = match.groups()
    job = (
        Job.objects.select_for_update(of=("self",))
        .select_related("team")
        .filter(pk=int(job_id))
        .first()
    )
    if job is None:
        return None
    part = (
        Part.objects.select_related("attempt")
        .filter(attempt__job=job, attempt__number=int(number), node_id=report.node_id)
        .first()
    )
    if part is None or part.attempt.run_id != report.run_id:
        return None
    return job, part


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
