"""Placed attempts to processes, and a stop to its nodes: load, speak, write.

No transaction is open while a machine speaks. Attempts that were placed together are launched
together: their rows are written in one statement each, and the answers are taken as they come,
so that a slow node holds up nobody else's. Every step may be repeated: what has begun is asked
again by the reconciler until each node has answered. A refusal is an answer and ends the attempt
by its class; silence is not, and changes nothing.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import close_old_connections, transaction
from django.db.models import Prefetch

from nodes import clock, runs
from nodes.errors import NodeRefused, NodeUnreachable

from . import freezing, refusals, reports
from .actors import LAUNCH
from .models import Attempt, Job, Lease, Part
from .run_orders import build
from .states import JobEvent, JobState
from .transitions import move_all

log = logging.getLogger(__name__)

MOST_AT_ONCE = 16
GATHER_S = 0.015  # so long the first answers wait for others, to be written together

Answer = dict[str, Any] | NodeRefused | NodeUnreachable


@dataclass
class _Start:
    """An attempt on its way, and what its nodes have answered to ``prepare`` so far."""

    attempt: Attempt
    parts: list[Part]
    answers: dict[int, Answer] = field(default_factory=dict)

    @property
    def job(self) -> Job:
        return self.attempt.job

    def unprepared(self) -> list[Part]:
        return [part for part in self.parts if part.prepared_at is None]

    def refused(self) -> list[tuple[Part, NodeRefused]]:
        return _refused((part, self.answers.get(part.pk)) for part in self.parts)

    def is_answered(self) -> bool:
        return all(part.pk in self.answers for part in self.unprepared())

    def is_ready(self) -> bool:
        return all(isinstance(self.answers.get(part.pk), dict) for part in self.unprepared())


def launch(attempt_ids: Sequence[int]) -> None:
    """Start attempts, each on all its nodes or on none. Safe to call twice and at once."""
    if freezing.current() is not None:
        return
    starts = _begin(_load(attempt_ids))
    _go(_write_prepared([one for one in starts if not one.unprepared()]))
    asked = [(one, part) for one in starts for part in one.unprepared()]
    for answers in _as_they_come(
        asked, lambda one, part: runs.prepare(part.node, build(part, one.parts, one.job))
    ):
        for one, part, answer in answers:
            one.answers[part.pk] = answer
        answered = {id(one) for one, _, _ in answers}
        _go(_write_prepared([s for s in starts if id(s) in answered and s.is_answered()]))


def stop(attempt_id: int) -> None:
    """Tell every node of a stopping attempt that still has it. Repeatable. Not while frozen."""
    if freezing.current() is not None:
        return
    for one in _load([attempt_id]):
        if one.job.state == JobState.STOPPING:
            _stop(one)
    reports.take()


def _stop(one: _Start) -> None:
    job, attempt = one.job, one.attempt
    live = [(one, part) for part in one.parts if part.gone_at is None]
    for answers in _as_they_come(
        live,
        lambda _, part: runs.stop(
            part.node,
            attempt.run_id,
            grace_s=job.grace_s,
            reason=attempt.stop_reason or "rank_failed",
            signal=job.stop_signal,
            to=_receiver(one),
            note=attempt.stop_note,
        ),
    ):
        told = [part.pk for _, part, answer in answers if isinstance(answer, dict)]
        Part.objects.filter(pk__in=told).update(stop_sent_at=clock.now())
        _hear(answers)


def _receiver(one: _Start) -> str:
    """Rank 0 alone where the job wants that, until its part is gone; then everybody left."""
    first_lives = any(part.first_rank == 0 and part.gone_at is None for part in one.parts)
    return one.job.signal_to if first_lives and one.attempt.stop_reason else "group"


def _load(attempt_ids: Sequence[int]) -> list[_Start]:
    leases = Lease.objects.filter(freed_at__isnull=True).select_related("card__gpu")
    attempts = Attempt.objects.filter(pk__in=attempt_ids, ended_at__isnull=True).select_related(
        "job__team", "job__user", "job__pool"
    )
    starts = {attempt.pk: _Start(attempt, []) for attempt in attempts.order_by("pk")}
    parts = (
        Part.objects.filter(attempt__in=starts)
        .select_related("node")
        .prefetch_related(Prefetch("leases", queryset=leases))
        .order_by("attempt", "node_rank")
    )
    for part in parts:
        part.attempt = starts[part.attempt_id].attempt
        starts[part.attempt_id].parts.append(part)
    return list(starts.values())


def _begin(starts: Sequence[_Start]) -> list[_Start]:
    """PLACED to STARTING, committed before the first byte leaves. Returns those that start."""
    at = clock.now()
    placed = {one.job: one.attempt.number for one in starts if one.job.state == JobState.PLACED}
    if placed:
        with transaction.atomic():
            begun = move_all(LAUNCH, placed, JobEvent.BEGIN, at=at)
            fresh = [one.attempt for one in starts if one.job.pk in begun]
            Attempt.objects.filter(pk__in=[attempt.pk for attempt in fresh]).update(began_at=at)
        for attempt in fresh:
            attempt.began_at = at
    return [one for one in starts if one.job.state == JobState.STARTING]


def _write_prepared(starts: Sequence[_Start]) -> list[_Start]:
    """Note who is ready and gets go next: all parts of a job that is still starting, or none."""
    at = clock.now()
    for one in starts:
        if refused := one.refused():
            refusals.take(one.job, one.attempt, refused, at=at)
    unrefused = [one for one in starts if not one.refused()]
    ready = [one for one in unrefused if one.is_ready()]
    if not unrefused:
        return []
    with transaction.atomic():
        heard = [pk for one in unrefused for pk, a in one.answers.items() if isinstance(a, dict)]
        Part.objects.filter(pk__in=heard).update(prepared_at=at)
        _note_phases(ready, at)
        ids = [one.attempt.pk for one in ready]
        going = Part.objects.filter(attempt__in=ids, started_at=None, gone_at=None)
        going.update(go_sent_at=at)
        starting = Job.objects.filter(attempts__in=ids, state=JobState.STARTING)
        still = set(starting.values_list("pk", flat=True))
    return [one for one in ready if one.job.pk in still]


def _note_phases(starts: Sequence[_Start], at: datetime) -> None:
    """How long the preparing took; what was begun together took equally long."""
    alike: dict[str, list[Attempt]] = {}
    for one in starts:
        seconds = max((at - (one.attempt.began_at or at)).total_seconds(), 0.0)
        one.attempt.phases["prepare"] = round(seconds, 3)
        alike.setdefault(json.dumps(one.attempt.phases), []).append(one.attempt)
    for some in alike.values():
        ids = [attempt.pk for attempt in some]
        Attempt.objects.filter(pk__in=ids).update(phases=some[0].phases)


def _go(starts: Sequence[_Start]) -> None:
    if not starts or freezing.current() is not None:
        return
    going = [
        (one, part)
        for one in starts
        for part in one.parts
        if part.started_at is None and part.gone_at is None
    ]
    for answers in _as_they_come(going, lambda one, part: runs.go(part.node, one.attempt.run_id)):
        _hear(answers)
        reports.take()
        for one in dict.fromkeys(one.attempt for one, _, _ in answers):
            said = [(part, answer) for o, part, answer in answers if o.attempt == one]
            if refused := _refused(said):
                refusals.take(one.job, one, refused, at=clock.now())


_Asked = tuple[_Start, Part]
_Answered = tuple[_Start, Part, Answer]


def _hear(answers: Sequence[_Answered]) -> None:
    said = [(part.node_id, answer) for _, part, answer in answers if isinstance(answer, dict)]
    reports.hear_all(said, at=clock.now())


def _refused(said: Iterable[tuple[Part, Answer | None]]) -> list[tuple[Part, NodeRefused]]:
    return [(part, answer) for part, answer in said if isinstance(answer, NodeRefused)]


def _as_they_come(
    asked: Sequence[_Asked], speak: Callable[[_Start, Part], dict[str, Any]]
) -> Iterator[list[_Answered]]:
    """Speak to all nodes at once; the answers in handfuls, those that come together together."""

    def one(start: _Start, part: Part) -> Answer:
        try:
            return speak(start, part)
        except NodeUnreachable as silent:
            log.info("%s on %s: %s", start.attempt.run_id, part.node.name, silent.cause)
            return silent
        except NodeRefused as refusal:
            return refusal

    def in_thread(start: _Start, part: Part) -> Answer:
        try:
            return one(start, part)
        finally:
            close_old_connections()

    if len(asked) == 1:
        yield [(*asked[0], one(*asked[0]))]
        return
    if not asked:
        return
    with ThreadPoolExecutor(min(len(asked), MOST_AT_ONCE)) as pool:
        waiting = {pool.submit(in_thread, *both): both for both in asked}
        while waiting:
            wait(waiting, return_when=FIRST_COMPLETED)
            done, _ = wait(waiting, timeout=GATHER_S)
            yield [(*waiting.pop(answer), answer.result()) for answer in done]
