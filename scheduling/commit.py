"""A Plan to rows: placements in short transactions under the ledger lock, and words for the rest.

A batch stands only if the ledger is where the snapshot read it (else a limit or a claim may have
changed, and the next cycle plans again) and the cycle's lease is still ours. Inside it, what
``placing`` finds taken by somebody faster is dropped and the rest stand.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from nodes import hints

from . import ledger, placing
from .control import Fence
from .engine.world import Placement, Waiting
from .models import Ledger
from .reasons import stored
from .snapshot import Snapshot
from .states import JobState

log = logging.getLogger(__name__)
BATCH = 8  # small: the first are started on their nodes while the rest are written
FRONT = 50
_Told = tuple[list[dict[str, Any]], int | None]


def apply(
    placements: Sequence[Placement], *, seen: Snapshot, fence: Fence, now: datetime
) -> list[int]:
    """Commit placements in batches. Returns the ids of the attempts that were placed."""
    placed: list[int] = []
    version = seen.ledger_version
    for batch in _batches(placements):
        with ledger.locked():
            current = Ledger.objects.values_list("version", flat=True).get(pk=1)
            if current != version + 1 or not fence.renew():
                log.info("the ledger moved on; %d placements are planned again", len(batch))
                hints.cycle_soon("the ledger moved on")
                return placed
            version = current
            attempts = placing.place(batch, now=now)
            placed += attempts
            hints.launch_soon(attempts)
    return placed


def tell(waiting: Sequence[Waiting], *, seen: Snapshot, everybody: bool = True) -> int:
    """Write the reasons and positions that changed. Returns how many rows. One statement.

    Without ``everybody``, only to the first of each queue and to those who were told nothing yet.
    """
    changed = []
    for one in waiting:
        known = seen.told.get(one.job)
        if not everybody and known and known[0] and (one.position or 0) > FRONT:
            continue
        reasons = stored(one.reasons)
        if _told_apart(known, (reasons, one.position)):
            changed.append((one.job, json.dumps(reasons), one.position))
    if changed:
        with connection.cursor() as cursor:
            cursor.execute(_TELL, [*map(list, zip(*changed, strict=True)), JobState.PENDING])
    return len(changed)


# Whole columns at once: a long queue has a new position in every row in every cycle.
_TELL = """
UPDATE scheduling_job AS job SET reasons = new.reasons::jsonb, position = new.position
FROM unnest(%s::bigint[], %s::text[], %s::int[]) AS new (id, reasons, position)
WHERE job.id = new.id AND job.state = %s
"""


def _told_apart(old: _Told | None, new: _Told) -> bool:
    """Do two tellings differ in more than the seconds that a backoff has left?"""
    return old is None or (_timeless(old[0]), old[1]) != (_timeless(new[0]), new[1])


def _timeless(reasons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"code": "Backoff"} if r["code"] == "Backoff" else r for r in reasons]


def _batches(placements: Sequence[Placement]) -> Iterator[Sequence[Placement]]:
    for start in range(0, len(placements), BATCH):
        yield placements[start : start + BATCH]
