"""A node said no before anything started: what follows, by whose matter it is.

``node`` (busy, disk, port): that node is left out for this job for ten minutes and the job waits
again. ``job`` (workdir, user, not executable): the same once, but the second node that says so,
or the only one there is, ends it. Everywhere else the attempt is stopped, which leaves a
tombstone where nothing had started.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from nodes import hints
from nodes.errors import NodeRefused
from nodes.models import Node

from .actors import LAUNCH
from .models import Attempt, ExcludedNode, Job, Part
from .states import JobEvent, StopReason
from .transitions import locked, move

LEFT_OUT_FOR = timedelta(minutes=10)


def take(
    job: Job, attempt: Attempt, refused: Sequence[tuple[Part, NodeRefused]], *, at: datetime
) -> None:
    """Write the refusals down, stop the attempt everywhere, and choose what follows."""
    with transaction.atomic():
        row = locked(job.pk)
        for part, refusal in refused:
            _leave_out(row, part, refusal, at=at)
        first = refused[0][1]
        note = f"{refused[0][0].node.name}: {first}"
        if not move(LAUNCH, row, JobEvent.REFUSE, at=at, note=note, attempt=attempt.number):
            return
        its_own = any(refusal.kind == "job" for _, refusal in refused)
        final = not row.requeue or (its_own and _no_other_node(row, at))
        Attempt.objects.filter(pk=attempt.pk).update(
            stop_reason=StopReason.WITHDRAW,
            stop_note=note,
            stop_asked_at=at,
            goal=Attempt.Goal.END if final else Attempt.Goal.AGAIN,
        )
        hints.stop_soon(attempt.pk)
        for part, refusal in refused:
            if refusal.code.startswith("card_"):
                # Somebody uses a card that looked free: let the inventory see it now.
                hints.probe_soon(part.node_id)


def _leave_out(job: Job, part: Part, refusal: NodeRefused, *, at: datetime) -> None:
    said = {
        "code": refusal.code,
        "kind": refusal.kind,
        "cause": refusal.cause,
        "next_step": refusal.next_step,
    }
    Part.objects.filter(pk=part.pk).update(refusal=said)
    if refusal.code == "port_taken":
        return  # the next attempt takes another port there
    ExcludedNode.objects.update_or_create(
        job=job, node_id=part.node_id, defaults={"until": at + LEFT_OUT_FOR, "refusal": said}
    )


def _no_other_node(job: Job, at: datetime) -> bool:
    """Two nodes said it is the job's matter, or there is no further node to ask."""
    said = ExcludedNode.objects.filter(job=job, refusal__kind="job", until__gt=at)
    if said.count() >= 2:
        return True
    others = Node.objects.filter(pool_node__pool=job.pool_id).exclude(
        pk__in=said.values_list("node_id")
    )
    return others.count() < job.nodes
