"""Does everything that says who holds what say the same? Leases, counters, states, logs, nodes.

Reads only. ``of_rows`` compares the rows among each other, in one snapshot of the database;
``of_nodes`` compares them with what each node says now. A new promise: a function in CHECKS.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, F, Max, Q, Sum
from django.db.models.functions import Coalesce

from nodes import clock, runs
from nodes.errors import NodeError
from nodes.models import Node

from . import accounts_check
from .accounts_check import Difference
from .models import Attempt, Card, Job, JobLog, Lease, Part, UnknownRun
from .reports import run_of
from .states import LIVE, MOVES, JobEvent, JobState

STUCK_AFTER = timedelta(minutes=5)


def of_rows() -> list[Difference]:
    """Every difference among the rows, read in one snapshot where the caller has none open."""
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return [found for check in CHECKS for found in check()]


def _counters() -> Iterator[Difference]:
    live = Q(leases__freed_at__isnull=True)
    cards = Card.objects.annotate(
        milli=Coalesce(Sum("leases__milli", filter=live), 0),
        mib=Coalesce(Sum("leases__mib", filter=live), 0),
    )
    wrong = cards.exclude(held_milli=F("milli"), held_mib=F("mib")).select_related("gpu")
    for card in wrong.order_by("pk"):
        yield Difference(
            f"card {card.pk} ({card.gpu.uuid})",
            f"its counters say {card.held_milli} milli-GPU and {card.held_mib} MiB, its live "
            f"leases {card.milli} and {card.mib}.",
            "Freeze, look at its leases in the admin pages, and report it.",
        )


def _leases() -> Iterator[Difference]:
    live = Lease.objects.filter(freed_at__isnull=True).select_related("part__attempt")
    for lease in live.filter(state=Lease.State.HELD, part__gone_at__isnull=False).order_by("pk"):
        yield Difference(
            f"lease {lease.pk} of {lease.part.attempt.run_id}",
            "it is held though the processes of its part are gone.",
            "Wait for the next look at its node; report it if it stays.",
        )
    for lease in live.filter(state=Lease.State.RELEASING, part__settled_at__isnull=False).order_by(
        "pk"
    ):
        yield Difference(
            f"lease {lease.pk} of {lease.part.attempt.run_id}",
            "it is being released, but its part is settled: nobody asks its node any more.",
            "Look at the card; give it back or withhold it in the admin pages.",
        )
    bare = Part.objects.filter(gone_at__isnull=True, ranks__gt=0).annotate(
        held=Count("leases", filter=Q(leases__freed_at__isnull=True))
    )
    for part in bare.exclude(held=F("ranks")).select_related("attempt").order_by("pk"):
        yield Difference(
            f"part {part.pk} of {part.attempt.run_id}",
            f"it is live with {part.ranks} ranks and holds {part.held} cards.",
            "Freeze, cancel the job, and report it.",
        )


def _attempts() -> Iterator[Difference]:
    jobs = Job.objects.annotate(
        live=Count("attempts", filter=Q(attempts__ended_at__isnull=True)),
    ).exclude(live=0, state__in=[s for s in JobState if s not in LIVE])
    for job in jobs.exclude(live=1, state__in=LIVE).order_by("pk"):
        yield Difference(
            f"job {job.pk}",
            f"it is {job.state} and has {job.live} live attempts.",
            "Freeze, and report it.",
        )
    ended = Part.objects.filter(gone_at__isnull=True, attempt__ended_at__isnull=False)
    for part in ended.select_related("attempt").order_by("pk"):
        yield Difference(
            f"part {part.pk} of {part.attempt.run_id}",
            "it is live though its attempt has ended.",
            "Look at its node, and report it.",
        )


def _logs() -> Iterator[Difference]:
    """A job's state is what its log adds up to, and every line of it is a move of the table."""
    state: dict[int, str] = {}
    broken: dict[int, str] = {}
    lines = JobLog.objects.order_by("id").values_list(
        "job_id", "event", "from_state", "to_state", "id"
    )
    for job_id, event, before, after, line in lines.iterator(chunk_size=10_000):
        known = state.get(job_id, "")
        if before != known or not _is_move(event, before, after):
            broken.setdefault(job_id, f"line {line} says {before or '-'} {event} {after}")
        state[job_id] = after
    for job_id, now in Job.objects.order_by("pk").values_list("pk", "state"):
        if job_id in broken:
            yield Difference(f"job {job_id}", f"its log is broken: {broken[job_id]}.", "Report it.")
        elif state.get(job_id, now) != now:
            cause = f"it is {now}, its log adds up to {state[job_id]}."
            yield Difference(f"job {job_id}", cause, "Freeze, and report it.")


def _is_move(event: str, before: str, after: str) -> bool:
    if event == JobEvent.SUBMIT:
        return not before
    try:
        return MOVES.get((JobState(before), JobEvent(event))) == after
    except ValueError:
        return False


def _stuck() -> Iterator[Difference]:
    """Every live job and lease has something that moves it; what nothing moved for long is told."""
    old = clock.now() - STUCK_AFTER
    ending = Attempt.objects.filter(
        ended_at__isnull=True, job__state=JobState.CLEANING, gone_at__lt=old
    )
    for attempt in ending.order_by("pk"):
        yield Difference(
            f"attempt {attempt.run_id}",
            f"its processes are gone since {attempt.gone_at:%H:%M:%S} UTC and it has not ended.",
            "Look whether the control and nodes processes run.",
        )
    alike = {"state": Lease.State.RELEASING, "releasing_at__lt": old}
    for lease in Lease.objects.filter(**alike).select_related("part__node").order_by("pk"):
        yield Difference(
            f"lease {lease.pk}",
            f"its card is not said to be clean since {lease.releasing_at:%H:%M:%S} UTC.",
            f"Look at node {lease.part.node.name}: {lease.part.node.silence or 'it answers'}.",
        )


CHECKS: tuple[Callable[[], Iterable[Difference]], ...] = (
    _counters,
    _leases,
    _attempts,
    _logs,
    _stuck,
    accounts_check.usage,
    accounts_check.promises,
)


def of_nodes() -> list[Difference]:
    """What the nodes that answer say and the rows do not, one look at each."""
    found: list[Difference] = []
    for node in Node.objects.filter(alarm="").order_by("name"):
        parts = Part.objects.filter(node=node, gone_at__isnull=True, started_at__isnull=False)
        known = {p.attempt.run_id: p for p in parts.select_related("attempt")}
        try:
            said = runs.look(node, list(known))
        except NodeError as silent:
            step = "What runs there is unknown; look at the node."
            found.append(Difference(f"node {node.name}", silent.cause, step))
            continue
        found += _node(node, known, said)
    return found


def _node(node: Node, known: dict[str, Part], said: dict[str, Any]) -> Iterator[Difference]:
    reports = {str(one.get("run")): one for one in said.get("reports") or []}
    alive = {run for run, one in reports.items() if _is_alive(one)}
    for run in sorted(set(known) - alive):
        state = reports.get(run, {}).get("state", "unknown")
        yield Difference(
            f"part {known[run].pk} of {run}",
            f"it runs on {node.name} by the rows; the node says {state}.",
            "Wait for the next look; report it if it stays.",
        )
    for run in sorted(alive - set(known)):
        yield Difference(f"node {node.name}", *_not_known(node, run, reports[run]))


def _is_alive(report: dict[str, Any]) -> bool:
    return report.get("state") in ("started", "unsupervised") and report.get("seq") != 5


def _not_known(node: Node, run: str, report: dict[str, Any]) -> tuple[str, str]:
    named = run_of(run)
    rows = (
        Attempt.objects.filter(job=named[0], number=named[1]) if named else Attempt.objects.none()
    )
    if any(attempt.run_id == run for attempt in rows):
        return f"it runs {run}, which is over by the rows.", "Look at the node, and report it."
    cards = ", ".join(map(str, report.get("holds") or [])) or "no cards"
    return (
        f"it runs {run}, which no job knows, on {cards}.",
        f"It occupies them. Leave it, or end it: manage.py stop_unknown {node.name} {run} "
        "--reason TEXT.",
    )


def summary() -> dict[str, int]:
    """How much was compared."""
    return {
        "jobs": Job.objects.count(),
        "live leases": Lease.objects.filter(freed_at__isnull=True).count(),
        "cards": Card.objects.count(),
        "log lines": JobLog.objects.aggregate(n=Count("pk"), last=Max("pk"))["n"],
        "unknown runs": UnknownRun.objects.filter(gone_at__isnull=True).count(),
    }
