"""What follows an attempt's end: is the job tried again, when, how often. A table and its rules.

One row an outcome (the closed list of ends). ``again``: always, from_checkpoint (only where there
is a complete one to go on from), never; and only if the job says requeue. ``limited``: after so
many in a row a person has to look. ``backoff``: 60 s, then twice as long each time. Pure: the
rows it judges by are given. A new end: a row here and in docs/job-lifecycle.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from .models import Attempt
from .outcomes import Outcome
from .states import JobEvent

FIRST_WAIT_S = 60
IDLE_RESTARTS = 3
ALWAYS, FROM_CHECKPOINT, NEVER = "always", "from_checkpoint", "never"


@dataclass(frozen=True, slots=True)
class Rule:
    again: str
    limited: bool = False
    backoff: bool = False


RULES: dict[str, Rule] = {
    "completed": Rule(NEVER),
    "failed": Rule(FROM_CHECKPOINT, limited=True, backoff=True),
    "out_of_memory": Rule(NEVER),
    "time_limit": Rule(NEVER),
    "preempted": Rule(ALWAYS),
    "reclaimed": Rule(ALWAYS),
    "drained": Rule(ALWAYS),
    "contention": Rule(ALWAYS),
    "node_lost": Rule(ALWAYS),
    "card_failed": Rule(ALWAYS),
    "launch_failed": Rule(ALWAYS, limited=True, backoff=True),
    "withdrawn": Rule(ALWAYS),
    "cancelled": Rule(NEVER),
    "unsupervised": Rule(FROM_CHECKPOINT, limited=True, backoff=True),
}
CRASHES = ("failed", "unsupervised")


@dataclass(frozen=True, slots=True)
class Next:
    """The outcome with the event that really follows; ``wait_s`` before it may be placed again."""

    what: Outcome
    wait_s: int = 0
    in_a_row: int = 0


def after(
    what: Outcome, attempt: Attempt, earlier: Sequence[Attempt], *, requeue: bool, most: int
) -> Next:
    """Decide what follows ``attempt`` that ended as ``what``.

    ``earlier``: the job's attempts before it, newest first, since a person last released it.
    """
    rule = RULES[what.outcome]
    if not requeue or rule.again == NEVER or what.wish == "never" or not _may(what, rule, attempt):
        return Next(what)
    if what.outcome in CRASHES:
        if _idle(attempt, earlier):
            return Next(replace(what, event=JobEvent.FAIL, note=_brought_nothing(what, attempt)))
        what = replace(what, event=JobEvent.AGAIN)
    kin = CRASHES if what.outcome in CRASHES else (what.outcome,)
    in_a_row = 1 + len(list(takewhile(lambda one: one.outcome in kin, earlier)))
    if rule.limited and in_a_row >= most:
        return Next(replace(what, event=JobEvent.GIVE_UP), in_a_row=in_a_row)
    # a node that refused is left out for this job: another may take it at once
    waits = rule.backoff and what.wish != "again" and not what.refused
    return Next(what, FIRST_WAIT_S * 2 ** (in_a_row - 1) if waits else 0, in_a_row)


def _may(what: Outcome, rule: Rule, attempt: Attempt) -> bool:
    if rule.again == FROM_CHECKPOINT and what.wish != "again":
        return reached(attempt) is not None
    return rule.again == FROM_CHECKPOINT or what.event == JobEvent.AGAIN


def reached(attempt: Attempt) -> int | None:
    """The step the next attempt would go on from."""
    return attempt.resumed_step if attempt.saved_step is None else attempt.saved_step


def _idle(attempt: Attempt, earlier: Sequence[Attempt]) -> bool:
    """The last three restarts crashed where they began."""
    last = [attempt, *earlier][:IDLE_RESTARTS]
    return len(last) == IDLE_RESTARTS and all(
        one.resumed_step is not None
        and reached(one) == one.resumed_step == attempt.resumed_step
        and (one is attempt or one.outcome in CRASHES)
        for one in last
    )


def _brought_nothing(what: Outcome, attempt: Attempt) -> str:
    step = attempt.resumed_step or 0
    return f"{what.note} {IDLE_RESTARTS} restarts from step {step:,} brought nothing new."
