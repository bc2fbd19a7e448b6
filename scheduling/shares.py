"""Reads about shares for pages and API: quotas with what is held of them, loans, what was used.

Scoped by what the viewer may see, as in ``queries``; nothing here writes.
"""

from collections import defaultdict
from datetime import date, datetime
from typing import Any

from django.db.models import Q, QuerySet, Sum

from .errors import NotFound
from .leases import charged
from .limits import limits
from .models import Loan, Quota, Team, UsageEntry, UsageSum
from .queries import Viewer, visible_teams

MILLI_HOUR = 3_600_000


def quotas(viewer: Viewer, now: datetime) -> list[dict[str, Any]]:
    """The quotas of the viewer's teams: what was set, what counts now, what is held of it.

    ``own_milli`` is nominal with loans, ``borrowed_milli`` what is held above it. A fixed number
    of queries.
    """
    names = dict(visible_teams(viewer).values_list("pk", "name"))
    held = held_milli()
    now_hold = {(one.team, one.gpu_model): one for one in limits(now)}
    rows = Quota.objects.filter(team_id__in=names).order_by("team__name", "gpu_model")
    return [
        _told(quota, names[quota.team_id], now_hold[key], held.get(key, 0))
        for quota in rows
        if (key := (quota.team_id, quota.gpu_model)) in now_hold
    ]


def _told(quota: Quota, team: str, limit: Any, held: int) -> dict[str, Any]:
    return {
        "team": team,
        "gpu_model": quota.gpu_model,
        "nominal_milli": quota.nominal_milli,
        "own_milli": limit.nominal_milli,
        "limit_milli": limit.milli,
        "held_milli": held,
        "borrowed_milli": max(0, held - limit.nominal_milli),
        "borrowing_limit_milli": quota.borrowing_limit_milli,
        "lending_limit_milli": quota.lending_limit_milli,
        "weight": quota.weight,
        "user_milli": quota.user_milli,
        "cpus": quota.cpus,
        "memory_mib": quota.memory_mib,
        "gpu_hours_a_month": quota.gpu_hours_a_month,
        "budget_is_hard": quota.budget_is_hard,
        "gpu_hours_used": limit.budget.spent_milli_s // MILLI_HOUR if limit.budget else None,
    }


def held_milli() -> dict[tuple[int, str], int]:
    """What each team's subtree is charged now, by model and ("") in all. Two queries."""
    parents = dict(Team.objects.values_list("pk", "parent_id"))
    held: dict[tuple[int, str], int] = defaultdict(int)
    rows = charged().values_list("part__attempt__job__team_id", "card__gpu__model")
    for team, model, milli in rows.annotate(Sum("milli")).order_by():
        seen: set[int] = set()
        link: int | None = team
        while link is not None and link not in seen:
            seen.add(link)
            held[link, model] += milli
            held[link, ""] += milli
            link = parents.get(link)
    return held


def loans(viewer: Viewer) -> list[Loan]:
    """Loans that a team of the viewer gave or took, newest first, at most 200."""
    return list(_loans(viewer)[:200])


def loan(viewer: Viewer, loan_id: int) -> Loan:
    """One of these. Raises NotFound for a foreign one too."""
    found = _loans(viewer).filter(pk=loan_id).first()
    if found is None:
        raise NotFound(f"There is no loan {loan_id}.", next_step="See /api/v1/loans.")
    return found


def _loans(viewer: Viewer) -> QuerySet[Loan]:
    found = Loan.objects.select_related("lender", "borrower", "made_by")
    if viewer.team_ids is not None:
        mine = Q(lender_id__in=viewer.team_ids) | Q(borrower_id__in=viewer.team_ids)
        found = found.filter(mine)
    return found.order_by("-pk")


def used(viewer: Viewer, *, month: date, team: str = "") -> list[dict[str, Any]]:
    """What users of the viewer's teams were charged in a month, given by its first day."""
    rows = UsageSum.objects.filter(month=month)
    if viewer.team_ids is not None:
        rows = rows.filter(team_id__in=viewer.team_ids)
    if team:
        rows = rows.filter(team__name=team)
    found = rows.order_by("team__name", "user__username", "gpu_model")
    return [
        {"team": team, "user": user, "gpu_model": model, "milli_s": milli_s}
        for team, user, model, milli_s in found.values_list(
            "team__name", "user__username", "gpu_model", "milli_s"
        )
    ]


def entries(
    viewer: Viewer, *, month: date, team: str = "", before_id: int | None = None, limit: int = 50
) -> list[UsageEntry]:
    """The entries of a month, newest first."""
    rows = UsageEntry.objects.filter(until_at__year=month.year, until_at__month=month.month)
    if viewer.team_ids is not None:
        rows = rows.filter(team_id__in=viewer.team_ids)
    if team:
        rows = rows.filter(team__name=team)
    if before_id is not None:
        rows = rows.filter(pk__lt=before_id)
    return list(rows.select_related("team", "user").order_by("-pk")[:limit])
