"""Reads for pages and API, scoped by what the viewer may see; nothing here writes.

A Viewer is a set of teams (None: all of them). What lies outside is not found, whichever way
it is asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Prefetch, Q, QuerySet, Sum

from nodes.models import Gpu, HealthChange, Node

from .errors import NotFound
from .leases import charged
from .models import Attempt, Job, JobLog, Lease, Member, Part, Pool, Quota, Team
from .states import LIVE, JobState


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: the teams they may see; None sees all. ``user_id`` marks what is theirs."""

    user_id: int
    team_ids: frozenset[int] | None


def visible_teams(viewer: Viewer) -> QuerySet[Team]:
    """The teams the viewer may see, by name."""
    teams = Team.objects.select_related("parent").order_by("name")
    return teams if viewer.team_ids is None else teams.filter(pk__in=viewer.team_ids)


def leaf_teams(viewer: Viewer) -> QuerySet[Team]:
    """Of those, the ones jobs may be submitted for (no team below them)."""
    return visible_teams(viewer).filter(children__isnull=True)


def subtree_ids(roots: Iterable[int]) -> frozenset[int]:
    """The teams ``roots`` and every team below them. One query."""
    return _below(roots, dict(Team.objects.values_list("pk", "parent_id")))


def _below(roots: Iterable[int], parents: Mapping[int, int | None]) -> frozenset[int]:
    inside = set(roots) & parents.keys()
    while True:
        more = {team for team, parent in parents.items() if parent in inside} - inside
        if not more:
            return frozenset(inside)
        inside |= more


def jobs(
    viewer: Viewer,
    *,
    states: Iterable[str] = (),
    team: str = "",
    mine: bool = False,
    before_id: int | None = None,
    limit: int = 50,
) -> list[Job]:
    """The viewer's jobs, newest first, at most ``limit``. Fixed number of queries."""
    found = _seen(Job.objects.all(), viewer)
    if states:
        found = found.filter(state__in=list(states))
    if team:
        found = found.filter(team__name=team)
    if mine:
        found = found.filter(user_id=viewer.user_id)
    if before_id is not None:
        found = found.filter(pk__lt=before_id)
    return list(_with_placement(found).order_by("-pk")[:limit])


def job(viewer: Viewer, job_id: int) -> Job:
    """One job with its attempts, parts and leases. Raises NotFound for a foreign one too."""
    found = _with_placement(_seen(Job.objects.filter(pk=job_id), viewer)).first()
    if found is None:
        raise NotFound(f"There is no job {job_id}.", next_step="See your jobs at /jobs/.")
    return found


def visible(viewer: Viewer, job_ids: Iterable[int]) -> frozenset[int]:
    """Of these jobs, the ids of those that the viewer may see. One query."""
    found = _seen(Job.objects.filter(pk__in=list(job_ids)), viewer)
    return frozenset(found.values_list("pk", flat=True))


def _seen(jobs: QuerySet[Job], viewer: Viewer) -> QuerySet[Job]:
    return jobs if viewer.team_ids is None else jobs.filter(team_id__in=viewer.team_ids)


def _with_placement(jobs: QuerySet[Job]) -> QuerySet[Job]:
    leases = Lease.objects.select_related("card__gpu").order_by("card__gpu__index")
    parts = Part.objects.select_related("node").prefetch_related(
        Prefetch("leases", queryset=leases)
    )
    attempts = Attempt.objects.order_by("number").prefetch_related(
        Prefetch("parts", queryset=parts)
    )
    return jobs.select_related("team", "user", "pool", "priority_class").prefetch_related(
        Prefetch("attempts", queryset=attempts)
    )


def log_of(job: Job) -> list[JobLog]:
    """What happened to a job, oldest first."""
    return list(JobLog.objects.filter(job=job).order_by("id"))


def counts(viewer: Viewer) -> dict[str, int]:
    """How many of the viewer's jobs are in each state that is not an end."""
    rows = _seen(Job.objects.filter(state__in=[JobState.PENDING, JobState.HELD, *LIVE]), viewer)
    return dict(rows.values_list("state").annotate(Count("pk")))


def nodes() -> list[Node]:
    """All nodes with their cards; live leases hang on ``gpu.card.live_leases``. Four queries."""
    live = Lease.objects.filter(freed_at__isnull=True).select_related("part__attempt__job__team")
    cards = (
        Gpu.objects.filter(Q(present=True) | Q(health=Node.Health.FAILED))
        .select_related("card")
        .prefetch_related(Prefetch("card__leases", queryset=live, to_attr="live_leases"))
        .order_by("index")
    )
    return list(
        Node.objects.select_related("pool_node__pool")
        .prefetch_related(Prefetch("gpus", queryset=cards))
        .order_by("name")
    )


def node(name: str) -> Node:
    """One node by name, with cards and holders as in ``nodes``."""
    for found in nodes():
        if found.name == name:
            return found
    raise NotFound(f"There is no node {name}.", next_step="See /nodes/.")


def health_changes(node: Node) -> list[HealthChange]:
    """The last verdicts on a node's cards that changed, newest first."""
    return list(HealthChange.objects.filter(gpu__node=node).select_related("gpu")[:12])


def held_by_team() -> dict[int, int]:
    """Whole GPUs charged to each team now."""
    rows = charged().values("part__attempt__job__team_id").annotate(milli=Sum("milli"))
    return {row["part__attempt__job__team_id"]: row["milli"] // 1000 for row in rows}


def teams(viewer: Viewer) -> list[dict[str, Any]]:
    """The viewer's teams with limit and use: name, title, parent, role, limit_gpus, held_gpus."""
    found = list(visible_teams(viewer).prefetch_related("children"))
    held = held_by_team()
    parents = dict(Team.objects.values_list("pk", "parent_id"))
    roles = dict(Member.objects.filter(user_id=viewer.user_id).values_list("team_id", "role"))
    limits = {quota.team_id: quota.limit_milli for quota in Quota.objects.filter(gpu_model="")}
    return [
        {
            "id": team.pk,
            "name": team.name,
            "title": team.title,
            "parent": team.parent.name if team.parent else None,
            "role": roles.get(team.pk),
            "leaf": not team.children.all(),
            "held_gpus": sum(held.get(inner, 0) for inner in _below([team.pk], parents)),
            "limit_gpus": None if (most := limits.get(team.pk)) is None else most // 1000,
        }
        for team in found
    ]


def pools() -> list[Pool]:
    """All pools by name."""
    return list(Pool.objects.order_by("name"))
