"""The front page: how are my jobs, what can I start now, what does the floor look like."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from nodes import clock
from portal import floor, rows
from portal.htmx import page_or_part, roles_of
from portal.words import count
from scheduling import limits, queries
from scheduling.engine.world import Limit
from scheduling.models import Job
from scheduling.states import CHARGED, DONE, LIVE, WAITING

SHOWN = 8


@dataclass(frozen=True, slots=True)
class Share:
    """What one of my teams holds of what it may hold; ``limit`` None: no limit.

    ``borrowed`` is what it holds above its own, where it has any.
    """

    team: str
    hue: int
    held: int
    limit: int | None
    borrowed: int = 0


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    viewer = roles_of(request).viewer
    now = clock.now()
    live = queries.jobs(viewer, mine=True, states=[*LIVE, *WAITING], limit=100)
    room = max(SHOWN - len(live), 3)
    ended = queries.jobs(viewer, mine=True, states=DONE, limit=room)
    drawn = floor.draw(queries.nodes(), viewer)
    jobs = rows.job_rows([*live[:SHOWN], *ended], drawn.hues, now)
    context = {
        "jobs": jobs,
        "sentence": _sentence(live),
        "offer": _offer(drawn),
        "floor": drawn,
        "shares": shares(roles_of(request).member_of, drawn),
        "newcomer": not jobs,
    }
    return page_or_part(request, "home/home", context)


def shares(team_ids: frozenset[int], drawn: floor.Floor) -> list[Share]:
    """Held, allowed and borrowed GPUs of a person's own teams. Two queries."""
    found = limits.limits(clock.now(), budgets=False)
    known = {one.team: one for one in found if not one.gpu_model}
    return [
        _share(name, drawn.hues[pk], drawn.held_by(name), known.get(pk))
        for pk, name in drawn.names.items()
        if pk in team_ids
    ]


def _share(name: str, hue: int, held: int, limit: Limit | None) -> Share:
    own = limit.nominal_milli // 1000 if limit else 0
    borrowed = max(0, held - own) if own else 0
    return Share(name, hue, held, _gpus(limit.milli) if limit else None, borrowed)


def _gpus(milli: int | None) -> int | None:
    return None if milli is None else milli // 1000


def _sentence(live: list[Job]) -> tuple[str, str]:
    running = [job for job in live if job.state in CHARGED]
    waiting = sum(job.state in WAITING for job in live)
    gpus = count(sum(job.gpus for job in running), "GPU")
    waits = f"{waiting} {'waits' if waiting == 1 else 'wait'}"
    if running:
        runs = f"{count(len(running), 'job')} {'runs' if len(running) == 1 else 'run'}"
        return runs, f" on {gpus}, {waits}." if waiting else f" on {gpus}."
    if waiting:
        return f"{count(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}", ", none runs."
    return "Nothing of yours runs or waits.", ""


def _offer(drawn: floor.Floor) -> str:
    """The best that could start now, in one sentence."""
    best = max(drawn.models, key=lambda model: model.most_on_a_node, default=None)
    if best is None:
        return "No node has shown a card yet." if drawn.nodes else "No node is enrolled yet."
    if not best.free:
        return f"All {count(drawn.cards, 'card')} are in use or out of service just now."
    name = best.name.removeprefix("NVIDIA ")
    most = f"up to {best.most_on_a_node} on one node ({best.roomiest})"
    return f"{best.free} of {count(best.cards, f'{name} card')} are free right now, {most}."
