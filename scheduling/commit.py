"""A Plan to rows: placements, pledges and evictions in short transactions under the ledger lock,
and words for the rest.

A batch stands only if the ledger is where the snapshot read it (else a limit or a claim may have
changed, and the next cycle plans again) and the cycle's lease is still ours. Inside it, what
``placing`` finds taken by somebody faster is dropped and the rest stand.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connection

from nodes import hints

from . import evicting, ledger, placing, pledges, predictions
from .actors import COMMAND
from .control import Fence
from .engine.world import Placement, Plan, Pledge, Waiting
from .models import Freeze, Job, Ledger
from .reasons import stored
from .snapshot import Snapshot, Told
from .states import JobState

log = logging.getLogger(__name__)
BATCH = 8  # small: the first are started on their nodes while the rest are written
FRONT = 50


def apply(decided: Plan, *, seen: Snapshot, fence: Fence, now: datetime) -> list[int]:
    """Commit a plan step by step. Returns the ids of the attempts that were placed.

    Pledges that fall end first, so that their cards are anybody's; what is placed frees the
    pledge it was kept by, so new pledges come last.
    """
    placed: list[int] = []
    version = seen.ledger_version
    for step in _steps(decided, placed, now):
        with ledger.locked():
            current = Ledger.objects.values_list("version", flat=True).get(pk=1)
            if current != version + 1 or not fence.renew():
                log.info("the ledger moved on; what is left is planned again")
                hints.cycle_soon("the ledger moved on")
                return placed
            version = current
            step()
    return placed


def _steps(decided: Plan, placed: list[int], now: datetime) -> Iterator[Callable[[], None]]:
    """Yield what is written in a transaction each; ``placed`` takes up what was placed."""

    def place(batch: Sequence[Placement]) -> None:
        attempts = placing.place(batch, now=now)
        placed.extend(attempts)
        hints.launch_soon(attempts)

    def fall() -> None:
        for fallen in decided.fallen:
            pledges.end([fallen.job], fallen.why, at=now)

    def pledge(one: Pledge) -> None:
        victims = [eviction for eviction in decided.evictions if eviction.by == one.job]
        evicting.carry_out(one, victims, now=now)

    if decided.fallen:
        yield fall
    for batch in _batches(decided.placements):
        yield partial(place, batch)
    for one in decided.pledges:
        yield partial(pledge, one)


def tell_frozen(frozen: Freeze) -> int:
    """Everybody who waits does so for the freeze alone. Returns how many did not know."""
    reason = frozen.reason[:200]
    by = "An operator" if frozen.frozen_by == COMMAND.name else frozen.frozen_by
    told = [{"code": "Frozen", "numbers": {"by": by, "why": reason.rstrip(".")}}]
    waiting = Job.objects.filter(state=JobState.PENDING).exclude(reasons=told)
    return waiting.update(reasons=told)


def tell(
    waiting: Sequence[Waiting], *, seen: Snapshot, now: datetime, everybody: bool = True
) -> int:
    """Write the reasons, positions and predictions that changed. Returns how many rows.

    Without ``everybody``, only to the first of each queue and to those who were told nothing yet.
    One statement.
    """
    changed = []
    for one in waiting:
        known = seen.told.get(one.job)
        if not everybody and known and known.reasons and (one.position or 0) > FRONT:
            continue
        start = predictions.settled(known.start if known else None, predictions.of(one), now=now)
        told = Told(stored(one.reasons), one.position, start)
        if _told_apart(known, told):
            row = (one.job, json.dumps(told.reasons), told.position)
            changed.append((*row, start.start_from, start.start_by, start.unsure))
    if changed:
        with connection.cursor() as cursor:
            cursor.execute(_TELL, [*map(list, zip(*changed, strict=True)), JobState.PENDING])
    return len(changed)


# Whole columns at once: a long queue has a new position in every row in every cycle.
_TELL = """
UPDATE scheduling_job AS job
SET reasons = new.reasons::jsonb, position = new.position,
    start_from = new.start_from, start_by = new.start_by, start_unsure = new.unsure
FROM unnest(
    %s::bigint[], %s::text[], %s::int[], %s::timestamptz[], %s::timestamptz[], %s::text[]
) AS new (id, reasons, position, start_from, start_by, unsure)
WHERE job.id = new.id AND job.state = %s
"""


def _told_apart(old: Told | None, new: Told) -> bool:
    """Do two tellings differ in more than the seconds that a backoff has left?"""
    if old is None or (old.position, old.start) != (new.position, new.start):
        return True
    return _timeless(old.reasons) != _timeless(new.reasons)


def _timeless(reasons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"code": "Backoff"} if r["code"] == "Backoff" else r for r in reasons]


def _batches(placements: Sequence[Placement]) -> Iterator[Sequence[Placement]]:
    for start in range(0, len(placements), BATCH):
        yield placements[start : start + BATCH]
