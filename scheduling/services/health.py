"""What an operator decides about a card: another verdict until a date, or that it is well again."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from nodes import conditions, hints
from nodes.models import Gpu, Node
from scheduling import audit, leases
from scheduling.actors import Actor
from scheduling.errors import InvalidOrder, WrongState

LONGEST = timedelta(days=90)


@transaction.atomic
def override(
    actor: Actor, gpu: Gpu, verdict: str, *, until: datetime, reason: str, at: datetime
) -> Gpu:
    """Let a verdict of a person's stand until a date, whatever the rules say meanwhile."""
    if verdict not in Node.Health.values:
        raise _invalid("verdict", f"{verdict!r} is none of {', '.join(Node.Health.values)}.")
    if not at < until <= at + LONGEST:
        raise _invalid("until", f"It is to end after now and within {LONGEST.days} days.")
    if not reason:
        raise _invalid("reason", "Say why; it is what the next reader has.")
    row = Gpu.objects.select_for_update().select_related("node").get(pk=gpu.pk)
    row.override, row.override_until, row.override_reason = verdict, until, reason
    conditions.change(row, verdict, at=at, rule="override", evidence=reason, actor=actor.name)
    _note(actor, "override health", row, at=at, reason=reason, verdict=verdict)
    return row


@transaction.atomic
def requalify(actor: Actor, gpu: Gpu, *, reason: str, at: datetime) -> Gpu:
    """Give a card back to work, if what is read of it now is in order.

    Only counters and what the driver says are checked: no load is put on the card. Raises
    WrongState naming what is still wrong.
    """
    row = Gpu.objects.select_for_update(of=("self",)).select_related("node", "card").get(pk=gpu.pk)
    verdict = conditions.still_wrong(row)
    if verdict.verdict not in (Node.Health.OK, Node.Health.WATCH):
        raise WrongState(
            f"GPU {row.index} of {row.node.name} is not in order: {verdict.evidence}",
            next_step=verdict.advice,
        )
    row.conditions, row.override, row.override_until, row.override_reason = {}, "", None, ""
    conditions.change(
        row, Node.Health.OK, at=at, rule="requalified", evidence=reason, actor=actor.name
    )
    card = getattr(row, "card", None)
    if card is not None:
        leases.clear_quarantine(card, at=at)
    _note(actor, "requalify", row, at=at, reason=reason, checked="counters only")
    return row


def _note(actor: Actor, verb: str, gpu: Gpu, *, at: datetime, reason: str, **facts: Any) -> None:
    audit.note(
        actor, verb, f"node {gpu.node.name}", at=at, reason=reason, gpu=gpu.index, uuid=gpu.uuid,
        **facts,
    )  # fmt: skip
    hints.cycle_soon(f"health of {gpu.node.name}")


def _invalid(field: str, sentence: str) -> InvalidOrder:
    return InvalidOrder(sentence, next_step="Correct it and try again.", fields={field: sentence})
