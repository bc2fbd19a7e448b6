"""Jobs leave cards that have failed: they are asked to save, and run again elsewhere.

A verdict is made on the floor below; this asks whoever holds such a card to leave, for the
card's fault and not their own. A degraded card keeps its job and gets no other. Repeatable: who
was asked already is not asked again.
"""

from datetime import datetime

from django.db import transaction

from nodes.models import Gpu, Node

from .actors import NODES
from .models import Lease
from .states import JobState, StopReason
from .stopping import ask_to_stop
from .transitions import locked

LEAVES = (JobState.PLACED, JobState.STARTING, JobState.RUNNING)


def leave_failed_cards(now: datetime) -> list[int]:
    """Ask the jobs on failed cards to leave. Returns their ids. One query when all is well."""
    held = Lease.objects.filter(
        state=Lease.State.HELD,
        card__gpu__health=Node.Health.FAILED,
        part__attempt__job__state__in=LEAVES,
    )
    asked = []
    for lease in held.select_related("card__gpu__node", "part__attempt").order_by("pk")[:200]:
        with transaction.atomic():
            job = locked(lease.part.attempt.job_id)
            note = _note(lease.card.gpu)
            if job.state in LEAVES and ask_to_stop(NODES, job, StopReason.FAULT, at=now, note=note):
                asked.append(job.pk)
    return asked


def _note(gpu: Gpu) -> str:
    """What the job's page says: the card and the cause."""
    why = f" ({gpu.health_rule}: {gpu.health_evidence})" if gpu.health_rule else ""
    return f"GPU {gpu.index} of {gpu.node.name} failed{why}"[:500].rstrip(".")
