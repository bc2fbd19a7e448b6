"""The only publisher of messages: "look again", never "this is so".

A hint for the cycle is a Wake row in the transaction of the fact, and a message after its
commit; the other hints are messages alone, since the rows they speak of are the wake. Lose
every message and the next beat puts it right. Tasks are named, never imported: the floor below
does not know the floor above.
"""

import logging
from collections.abc import Sequence

from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

from .models import Wake

log = logging.getLogger(__name__)
LAUNCHED_TOGETHER = 16


def cycle_soon(cause: str) -> None:
    """Ask for a placement cycle: a Wake row now, a message after commit.

    None is sent while an older wake is there: its message is on its way, and a cycle that has
    served it looks once more before it ends.
    """
    wake = Wake.objects.create(cause=cause[:63])
    transaction.on_commit(lambda: _send_unless_asked(wake), robust=True)


def _send_unless_asked(wake: Wake) -> None:
    if settings.GANGWAY_HINTS and not Wake.objects.filter(pk__lt=wake.pk).exists():
        repeat_cycle()


def repeat_cycle() -> None:
    """Send the cycle's message once more; its wakes are there already."""
    _after_commit("scheduling.run_cycle", queue="cycle", expires_s=10)


def reports_soon() -> None:
    """Ask that the untaken RunReports be taken."""
    _after_commit("scheduling.take_reports", queue="control", expires_s=10)


def launch_soon(attempt_ids: Sequence[int]) -> None:
    """Ask that these placed attempts be started on their nodes, so many by one message."""
    for start in range(0, len(attempt_ids), LAUNCHED_TOGETHER):
        some = list(attempt_ids[start : start + LAUNCHED_TOGETHER])
        _after_commit("scheduling.launch", [some], queue="nodes", expires_s=20)


def stop_soon(attempt_id: int) -> None:
    """Ask that the nodes of this attempt be told to stop it."""
    _after_commit("scheduling.stop", [attempt_id], queue="nodes", expires_s=10)


def finish_soon(attempt_id: int) -> None:
    """Ask that a cleaning attempt's log tail be kept and its cards checked."""
    _after_commit("scheduling.finish", [attempt_id], queue="nodes", expires_s=20)


def look_soon(node_id: int) -> None:
    """Ask for a look at a node."""
    _after_commit("scheduling.look", [node_id], queue="nodes", expires_s=5)


def probe_soon(node_id: int) -> None:
    """Ask for a probe of a node."""
    _after_commit("nodes.probe", [node_id], queue="nodes", expires_s=15)


def unknown_run_soon(node_id: int, run_id: str) -> None:
    """Ask that a node be asked of a run that nobody knows."""
    _after_commit("scheduling.meet_unknown", [node_id, run_id], queue="nodes", expires_s=20)


def _after_commit(
    task: str, args: Sequence[int | str | list[int]] = (), *, queue: str, expires_s: int
) -> None:
    transaction.on_commit(lambda: _send(task, args, queue=queue, expires_s=expires_s))


def _send(task: str, args: Sequence[int | str | list[int]], *, queue: str, expires_s: int) -> None:
    if not settings.GANGWAY_HINTS:
        return
    try:
        current_app.send_task(
            task, args=list(args), queue=queue, expires=expires_s, ignore_result=True, retry=False
        )
    except OperationalError as gone:
        # The fact is committed; the beat sends the same hint within seconds.
        log.warning("hint %s not sent, the beat will repeat it: %s", task, gone)
