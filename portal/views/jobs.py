"""Jobs: the list, one job, its log as bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from nodes import clock
from nodes.models import Node
from portal import floor, rows, sooner, words
from portal.htmx import page, page_or_part, roles_of
from scheduling import advice, explaining, logs, predictions, queries, reasons
from scheduling.errors import InvalidOrder
from scheduling.models import Attempt, Job
from scheduling.states import DONE, LIVE, WAITING, JobState

PAGE = 50
STATES: dict[str, tuple[str, frozenset[JobState]]] = {
    "": ("All", frozenset()),
    "live": ("Running", LIVE),
    "waiting": ("Waiting", WAITING),
    "ended": ("Ended", DONE),
}
RAW_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Link:
    """A filter: a link that can be shared."""

    word: str
    href: str
    current: bool


@require_safe
def job_list(request: HttpRequest) -> HttpResponse:
    viewer = roles_of(request).viewer
    state = request.GET.get("state", "")
    whose = request.GET.get("whose", "")
    found = queries.jobs(
        viewer,
        states=STATES.get(state, STATES[""])[1],
        mine=whose == "mine",
        team="" if whose == "mine" else whose,
        before_id=_number(request.GET.get("before")),
        limit=PAGE + 1,
    )
    teams = [team.name for team in queries.leaf_teams(viewer)]
    shown = found[:PAGE]
    here = {"state": state, "whose": whose}
    context = {
        "jobs": rows.job_rows(shown, floor.hues(), clock.now()),
        "sentence": _sentence(queries.counts(viewer)),
        "whose": [_link(here, "whose", name, word) for name, word in _owners(teams)],
        "states": [_link(here, "state", name, word) for name, (word, _) in STATES.items()],
        "filtered": bool(state or whose),
        "older": _query(here | {"before": str(shown[-1].pk)}) if len(found) > PAGE else "",
        "newest": _query(here) if "before" in request.GET else "",
    }
    return page_or_part(request, "jobs/list", context, live="before" not in request.GET)


@require_safe
def job_detail(request: HttpRequest, job_id: int) -> HttpResponse:
    roles = roles_of(request)
    job = queries.job(roles.viewer, job_id)
    now = clock.now()
    hues = floor.hues()
    attempts = [_attempt(one, hues.get(job.team_id, 0), now) for one in job.attempts.all()]
    context = {
        "job": job,
        "hue": hues.get(job.team_id, 0),
        "lead": words.lead(job, now),
        "reasons": reasons.sentences(job),
        "starts": words.starts(predictions.kept(job)),
        "attempts": attempts,
        "current": attempts[-1] if attempts else None,
        "happened": [words.happened(entry) for entry in reversed(queries.log_of(job))],
        "ends": _ends(job),
        "advice": [] if job.is_done else advice.of(job),
        "may_act": roles.may_act_on(job),
        "mine": job.user_id == roles.user_id,
        "waiting": job.state in WAITING,
        "streams": _streams(job),
        "chosen": _number(request.GET.get("attempt")),
        "rank": _number(request.GET.get("rank")) or 0,
    }
    return page_or_part(request, "jobs/detail", context, live=not job.is_done)


@require_safe
def job_sooner(request: HttpRequest, job_id: int) -> HttpResponse:
    """Who is ahead, and single changes with which a waiting job would start now; asked for once."""
    job = queries.job(roles_of(request).viewer, job_id)
    told = explaining.of(job, now=clock.now())
    context = {"told": told, "ways": sooner.ways(job, told.ways), "seen": _seen(request, told)}
    return page(request, "jobs/_sooner", context)


def _seen(request: HttpRequest, told: explaining.Explanation) -> frozenset[int]:
    """Of the jobs ahead, those that the reader may open."""
    return queries.visible(roles_of(request).viewer, [one.id for one in told.ahead.jobs])


@require_safe
def job_log(request: HttpRequest, job_id: int) -> HttpResponse:
    """Bytes of one rank's log from ``offset``; X-Next-Offset says where to read on.

    ``raw=1``: up to 1 MiB from the end, for reading in the browser. Always plain text.
    """
    job = queries.job(roles_of(request).viewer, job_id)
    attempt = _number(request.GET.get("attempt"))
    rank = _number(request.GET.get("rank")) or 0
    offset = _number(request.GET.get("offset")) or 0
    raw = "raw" in request.GET
    if raw:
        offset = -RAW_MAX_BYTES
    piece = first = logs.read(job, attempt=attempt, rank=rank, offset=offset)
    data = bytearray(piece.data)
    # Up to the size it had when asked: a job may write faster than its log is read.
    while raw and piece.data and not piece.ended and piece.next_offset < first.size:
        piece = logs.read(job, attempt=attempt, rank=rank, offset=piece.next_offset)
        data += piece.data
    return HttpResponse(
        bytes(data),
        content_type="text/plain; charset=utf-8",
        headers={
            "X-Offset": str(first.offset),
            "X-Next-Offset": str(piece.next_offset),
            "X-Size": str(piece.size),
            "X-Ended": "1" if piece.ended else "0",
            "Cache-Control": "private, no-store",
        },
    )


@require_safe
def find(request: HttpRequest) -> HttpResponse:
    """A number leads to the job, a name to the node; anything else to the list of jobs."""
    wanted = request.GET.get("q", "").strip().lstrip("#")
    number = _number(wanted)
    if number is not None and number >= 0:
        return redirect("job-detail", number)
    if wanted and Node.objects.filter(name=wanted).exists():
        return redirect("node-detail", wanted)
    if not wanted:
        return redirect("job-list")
    raise InvalidOrder(
        f"There is no job number and no node {wanted[:80]!r}.",
        next_step="Type a job's number, such as 17, or a node's name.",
    )


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt with its cells and how it went. ``ran_s`` None: it never started."""

    attempt: Attempt
    places: tuple[rows.Place, ...]
    outcome: str
    how: str
    ran_s: float | None


def _attempt(attempt: Attempt, hue: int, now: datetime) -> AttemptView:
    return AttemptView(
        attempt,
        rows.places(attempt, hue),
        words.OUTCOMES.get(attempt.outcome, "under way" if not attempt.ended_at else "ended"),
        words.how(attempt),
        words.ran_s(attempt, now) if attempt.started_at else None,
    )


def _ends(job: Job) -> datetime | None:
    """When the time limit of the running attempt is reached."""
    attempt = words.last_attempt(job)
    if attempt is None or attempt.started_at is None or job.state != JobState.RUNNING:
        return None
    return attempt.started_at + timedelta(seconds=job.time_limit_s)


def _streams(job: Job) -> list[tuple[int, int, str]]:
    """(attempt, rank, node) of every log there is, newest attempt first."""
    found = []
    for attempt in sorted(job.attempts.all(), key=lambda one: -one.number):
        for part in attempt.parts.all():
            each = part.ranks if job.launch == Job.Launch.PER_GPU else 1
            found += [
                (attempt.number, part.first_rank + rank, part.node.name) for rank in range(each)
            ]
    return found


def _sentence(counts: dict[str, int]) -> tuple[str, str]:
    running = sum(counts.get(state, 0) for state in LIVE)
    waiting = sum(counts.get(state, 0) for state in WAITING)
    runs = f"{words.count(running, 'job')} {'runs' if running == 1 else 'run'}"
    return runs, f", {waiting} {'waits' if waiting == 1 else 'wait'}."


def _owners(teams: list[str]) -> Iterable[tuple[str, str]]:
    yield "", "Everyone"
    yield "mine", "Mine"
    for name in teams[:8]:
        yield name, name


def _link(here: dict[str, str], name: str, value: str, word: str) -> Link:
    return Link(word, _query(here | {name: value}), here[name] == value)


def _query(wanted: dict[str, str]) -> str:
    kept = urlencode({name: value for name, value in wanted.items() if value})
    return f"{reverse('job-list')}?{kept}" if kept else reverse("job-list")


def _number(text: str | None) -> int | None:
    """A whole number of at most 18 digits, negative allowed; None for anything else."""
    digits = (text or "").removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(text or "")
    return None
