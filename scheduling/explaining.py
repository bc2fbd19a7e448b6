"""What a job is told when somebody asks: why it waits, who is ahead, when it starts, what helps.

The same for a job that is not submitted yet (a preview): one snapshot, the engine, and nothing is
written. Ids and teams of others are told, never their names or owners.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from . import feasibility, following, predictions, reasons, snapshot
from .engine import explain
from .engine.plan import plan
from .engine.world import PartPlan, Reason, Waiting, World
from .models import Job, Pool
from .occupancy import HANDOVER_S
from .orders import JobOrder
from .predictions import Prediction
from .services.jobs import draft
from .states import JobState

NAMED = 10
NO_PREDICTION = Prediction()


@dataclass(frozen=True, slots=True)
class Rival:
    """A job ahead, by its id and team. ``why``: priority, earlier, or order (its team's turn)."""

    id: int
    team: str
    why: str


@dataclass(frozen=True, slots=True)
class Ahead:
    """Who waits ahead for the same cards: how many, the first of them, how many by team."""

    count: int = 0
    jobs: tuple[Rival, ...] = ()
    teams: tuple[tuple[str, int], ...] = ()


NOBODY = Ahead()


@dataclass(frozen=True, slots=True)
class Way:
    """One field of the order and a value with which the job would start now."""

    field: str
    value: int | str


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer. ``nodes``: where it would start now, node name and how many GPUs."""

    starts: bool
    reasons: tuple[Reason, ...] = ()
    position: int | None = None
    start: Prediction = NO_PREDICTION
    ahead: Ahead = NOBODY
    ways: tuple[Way, ...] = ()
    nodes: tuple[tuple[str, int], ...] = ()


def of(job: Job, *, now: datetime) -> Explanation:
    """Explain a job. Its reasons and its time are those on its row, as every page shows them."""
    known = tuple(reasons.read(job)) if job.state in (JobState.PENDING, JobState.HELD) else ()
    told = Explanation(False, known, job.position, predictions.kept(job))
    if job.state != JobState.PENDING:
        return told
    world = snapshot.take(now).world
    asked = next((one for one in world.jobs if one.id == job.pk), None)
    if asked is None:
        return told
    answer = explain.ask(world, asked)
    return replace(
        told,
        starts=answer.starts,
        ahead=_ahead(world, asked.id, answer.ahead),
        ways=_ways(job, answer.ways),
    )


def preview(order: JobOrder, *, user_id: int, now: datetime) -> tuple[Job, Explanation]:
    """What an order would meet if it were submitted now: the unsaved job, and what it is told.

    Raises InvalidOrder as ``submit`` would. A job that no state could hold is told so.
    """
    job = draft(order, user_id=user_id, at=now)
    never = feasibility.what_never_fits(job)
    if never is not None:
        return job, Explanation(False, (never,), start=Prediction(unsure="never"))
    world = snapshot.take(now).world
    waits_for = following.waits_for(job, following.ends([job]))
    newest = max((one.id for one in world.jobs), default=0)
    asked = replace(snapshot.engine_job(job, waits_for=waits_for), id=newest + 1)
    world = replace(world, jobs=(*world.jobs, asked))
    decided = plan(world)
    for placement in decided.placements:
        if placement.job == asked.id:
            return job, Explanation(True, nodes=_nodes(world, placement.parts))
    waiting = next(one for one in decided.waiting if one.job == asked.id)
    return job, _waits(world, job, waiting)


def _waits(world: World, job: Job, waiting: Waiting) -> Explanation:
    asked = next(one for one in world.jobs if one.id == waiting.job)
    answer = explain.ask(world, asked)
    return Explanation(
        starts=False,
        reasons=waiting.reasons,
        position=waiting.position,
        start=predictions.of(waiting),
        ahead=_ahead(world, asked.id, answer.ahead),
        ways=_ways(job, answer.ways),
    )


def _ahead(world: World, asked_id: int, ids: tuple[int, ...]) -> Ahead:
    jobs = {one.id: one for one in world.jobs}
    names = {team.id: team.name for team in world.teams}
    asked = jobs[asked_id]

    def why(id: int) -> str:
        if jobs[id].priority > asked.priority:
            return "priority"
        earlier = (jobs[id].submitted_us, id) < (asked.submitted_us, asked_id)
        return "earlier" if earlier and jobs[id].priority == asked.priority else "order"

    teams = Counter(names.get(jobs[id].team, "") for id in ids)
    first = (Rival(id, names.get(jobs[id].team, ""), why(id)) for id in ids[:NAMED])
    return Ahead(len(ids), tuple(first), tuple(sorted(teams.items())))


def _ways(job: Job, ways: Iterable[explain.Way]) -> tuple[Way, ...]:
    """The engine's ways as fields of an order; a time limit in whole minutes."""
    found = []
    for way in ways:
        if way.field == "pool":
            found += [Way("pool", name) for name in _names(Pool, way.value)]
        elif way.field != "limit_us":
            found.append(Way(way.field, way.value))
        elif (limit_s := int(way.value) // 1_000_000 - job.grace_s - HANDOVER_S) >= 60:
            found.append(Way("time_limit", limit_s // 60 * 60))
    return tuple(found)


def _names(model: type[Pool], pk: int | str) -> list[str]:
    return list(model.objects.filter(pk=pk).values_list("name", flat=True))


def _nodes(world: World, parts: tuple[PartPlan, ...]) -> tuple[tuple[str, int], ...]:
    names = {node.id: node.name for node in world.nodes}
    return tuple((names[part.node], len(part.gpus)) for part in parts)
