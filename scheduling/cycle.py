"""Look, think, write: one placement cycle, and the loop that serves every wake once.

A wake is a row; its ids are noted before the snapshot and deleted after the commit, so a fact
written in between is looked at by the next turn. Nothing here decides: the engine does.
"""

import logging
import time
from datetime import timedelta

from django.conf import settings

from nodes import clock, hints
from nodes.models import Wake

from . import commit, control, freezing, snapshot
from .cards import sync_cards
from .engine.plan import plan

log = logging.getLogger(__name__)
MOST_TURNS = 40
TELL_ALL_EVERY = 8  # the far end of a queue hears of its place less often while cycles are dense


def serve(*, always: bool = False) -> int:
    """Run cycles until no wake is left. ``always``: at least one. Returns how many were run.

    Ends at once when another worker holds the lease: it will see the same wakes. The question
    is asked again after letting go, since a wake may have come in between.
    """
    turns = 0
    while turns < MOST_TURNS and ((always and not turns) or Wake.objects.exists()):
        with control.lease() as fence:
            if fence is None:
                return turns
            while turns < MOST_TURNS and ((always and not turns) or Wake.objects.exists()):
                _keep_pace(fence)
                run(fence, everybody=turns % TELL_ALL_EVERY == 0)
                turns += 1
    if turns == MOST_TURNS:
        hints.repeat_cycle()
    return turns


def run(fence: control.Fence, *, everybody: bool = True) -> list[int]:
    """One cycle under the lease. Returns the ids of the attempts it placed.

    ``everybody`` who waits is told why, else (see ``commit.tell``) the front of each queue.
    """
    began = time.monotonic()
    wakes = list(Wake.objects.values_list("pk", flat=True)[:10_000])
    if (frozen := freezing.current()) is not None:
        commit.tell_frozen(frozen)
        Wake.objects.filter(pk__in=wakes).delete()
        return []
    sync_cards()
    now = clock.now()
    seen = snapshot.take(now)
    if not fence.renew():
        return []
    decided = plan(seen.world)
    placing = time.monotonic()
    placed = commit.apply(decided, seen=seen, fence=fence, now=now)
    placing_s = time.monotonic() - placing
    commit.tell(decided.waiting, seen=seen, now=now, everybody=everybody)
    Wake.objects.filter(pk__in=wakes).delete()
    took_ms = int((time.monotonic() - began - placing_s) * 1000)
    fence.note(began_at=now, took_ms=took_ms)
    for one in decided.pledges:
        by = [eviction.job for eviction in decided.evictions if eviction.by == one.job]
        log.info("cards pledged to job %d, jobs %s leave for it", one.job, by)
    if placed:
        waiting, placing_ms = len(decided.waiting), int(placing_s * 1000)
        log.info("%d placed in %d ms, %d wait, %d ms", len(placed), placing_ms, waiting, took_ms)
    return placed


def _keep_pace(fence: control.Fence) -> None:
    """At once when idle, else at most one cycle per gap, or per twice what the last one took.

    The time of writing placements does not count: as many cards had become free.
    """
    if fence.last_began_at is None:
        return
    gap_ms = max(settings.GANGWAY_CYCLE_GAP_MS, 2 * fence.last_took_ms)
    due = fence.last_began_at + timedelta(milliseconds=gap_ms)
    wait_s = (due - clock.now()).total_seconds()
    if wait_s > 0:
        time.sleep(min(wait_s, control.LEASE_S / 2))
