"""The brake: while it is on, nothing is placed, evicted, started or signalled; what runs runs on.

Owns the Freeze rows. The cycle, the launch, the stop and the reconciler ask ``current`` before they
act. What a keeper on a node was told before it does all the same: a time limit, a grace period.
"""

from datetime import datetime

from nodes import hints

from . import audit, ledger
from .actors import Actor
from .errors import WrongState
from .models import Attempt, Freeze
from .states import JobState


def current() -> Freeze | None:
    """The freeze that is on, or None. One query of one row."""
    return Freeze.objects.filter(lifted_at__isnull=True).first()


def freeze(actor: Actor, *, reason: str, at: datetime) -> Freeze:
    """Stop placements, evictions, starts and signals. When it returns, no placement commits:
    a cycle under way finds that the ledger has moved on.

    Raises WrongState if it is on already, or without a reason.
    """
    if not reason.strip():
        raise WrongState("A freeze needs a reason.", next_step="Say why; everybody reads it.")
    with ledger.locked():
        on = current()
        if on is not None:
            raise WrongState(
                f"It is frozen already, since {on.frozen_at:%H:%M} UTC by {on.frozen_by}: "
                f"{on.reason}",
                next_step="Lift that freeze first, or leave it.",
            )
        made = Freeze.objects.create(frozen_at=at, frozen_by=actor.name, reason=reason.strip())
        audit.note(actor, "freeze", "placement", at=at, reason=made.reason)
        hints.cycle_soon("frozen")
    return made


def lift(actor: Actor, *, at: datetime, reason: str = "") -> Freeze:
    """Let everything go on. Raises WrongState if nothing is frozen."""
    with ledger.locked():
        on = Freeze.objects.select_for_update().filter(lifted_at__isnull=True).first()
        if on is None:
            raise WrongState("Nothing is frozen.", next_step="Nothing has to be lifted.")
        on.lifted_at, on.lifted_by = at, actor.name
        on.save(update_fields=["lifted_at", "lifted_by"])
        # their nodes were not asked meanwhile: the patience with them begins anew
        starting = Attempt.objects.filter(ended_at__isnull=True, job__state=JobState.STARTING)
        starting.update(began_at=at)
        audit.note(actor, "lift freeze", "placement", at=at, reason=reason)
        hints.cycle_soon("freeze lifted")
    return on
