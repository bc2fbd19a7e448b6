"""Celery doors of the nodes floor: probe, read a log, prune. One call each, no decisions."""

import base64
import logging
from datetime import timedelta

from celery import shared_task

from . import clock, hints, inventory, runs, samples
from .errors import NodeError, NodeRefused
from .models import Node, RunReport

log = logging.getLogger(__name__)
KEEP_REPORTS_FOR = timedelta(days=1)


@shared_task(name="nodes.probe_all")
def probe_all() -> None:
    for node_id in Node.objects.filter(alarm="").order_by("id").values_list("pk", flat=True):
        hints.probe_soon(node_id)


@shared_task(name="nodes.probe")
def probe(node_id: int) -> None:
    node = Node.objects.filter(pk=node_id, alarm="").first()
    if node is None:
        return
    try:
        answer = runs.probe(node)
    except NodeError as silent:
        log.info("node %s is not probed: %s", node.name, silent.cause)
        return
    inventory.take_in(node, answer, at=clock.now())


@shared_task(name="nodes.read_tail", ignore_result=False)
def read_tail(node_id: int, run_id: str, rank: int, offset: int, limit: int) -> dict[str, object]:
    """A piece of a log as JSON, or the refusal as data: results carry no exceptions."""
    try:
        node = Node.objects.get(pk=node_id)
        data, at, size = runs.tail(node, run_id, rank=rank, offset=offset, limit=limit)
    except NodeError as said:
        kind = said.kind if isinstance(said, NodeRefused) else "unreachable"
        error = {"code": said.code, "kind": kind, "cause": said.cause, "next_step": said.next_step}
        return {"error": error}
    return {"data": base64.b64encode(data).decode("ascii"), "offset": at, "size": size}


@shared_task(name="nodes.prune")
def prune() -> None:
    old = clock.now() - KEEP_REPORTS_FOR
    RunReport.objects.filter(taken_at__lt=old).delete()
    samples.tend(clock.now())
