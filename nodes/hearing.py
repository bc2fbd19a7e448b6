"""Events of runs on their way from the readers to the one who stores them.

Readers must go on reading, so they only drop reports here; one thread takes what came within a
few milliseconds and hands it on, node by node. `listen` says to whom. A report that is lost here
comes again with the next look. Never: rows of its own.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connections

log = logging.getLogger(__name__)

GATHER_S = 0.004
IDLE_S = 2.0
BACKLOG = 10_000
Report = dict[str, Any]
Listener = Callable[[int, list[Report]], None]

_reports: "queue.Queue[tuple[int, Report]]" = queue.Queue(BACKLOG)
_start = threading.Lock()
_thread: threading.Thread | None = None
_listener: Listener | None = None


def listen(listener: Listener | None) -> None:
    """Give reports to ``listener(node_id, reports)`` from now on, in a thread of their own."""
    global _listener
    _listener = listener


def drop(node_id: int, report: Report) -> None:
    """Take one report from a reader; never waits."""
    if _listener is None:
        return
    try:
        _reports.put_nowait((node_id, report))
    except queue.Full:
        log.warning("too many reports at once; the next look at node %s repeats them", node_id)
        return
    _ensure_thread()


def _ensure_thread() -> None:
    global _thread
    with _start:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_hand_on, name="hearing", daemon=True)
            _thread.start()


def _hand_on() -> None:
    while True:
        batches = _gather()
        close_old_connections()
        for node_id, reports in batches.items():
            listener = _listener
            if listener is not None:
                _tell(listener, node_id, reports)


def _gather() -> dict[int, list[Report]]:
    try:
        node_id, report = _reports.get(timeout=IDLE_S)
    except queue.Empty:
        connections.close_all()
        node_id, report = _reports.get()
    batches = {node_id: [report]}
    until = time.monotonic() + GATHER_S
    while (left_s := until - time.monotonic()) > 0:
        try:
            node_id, report = _reports.get(timeout=left_s)
        except queue.Empty:
            break
        batches.setdefault(node_id, []).append(report)
    return batches


def _tell(listener: Listener, node_id: int, reports: list[Report]) -> None:
    try:
        listener(node_id, reports)
    except (DatabaseError, InterfaceError) as failed:
        log.warning("%d reports of node %s not stored: %s", len(reports), node_id, failed)
    except Exception:  # noqa: BLE001, RUF100 - the thread must outlive one bad report
        log.exception("%d reports of node %s not taken", len(reports), node_id)
