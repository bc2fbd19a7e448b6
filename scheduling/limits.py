"""Quotas and loans as the engine's limits: what each team may hold at a moment.

The only place that says what a loan does to the tree: what is lent moves from the lender to the
borrower, and with it the totals of the teams above them up to the one they share. Writes nothing.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from django.db.models import Q, QuerySet

from . import usage
from .engine.world import Budget, Limit
from .models import Loan, Quota, Team

HOUR_MILLI_S = 3600 * 1000


def limits(now: datetime, *, budgets: bool = True) -> tuple[Limit, ...]:
    """The most each team may hold now. Two queries, and two more if a team has a budget."""
    quotas = list(Quota.objects.order_by("team_id", "gpu_model"))
    spent: dict[tuple[int, str], int] = {}
    if budgets and any(quota.gpu_hours_a_month is not None for quota in quotas):
        spent = _subtrees(usage.this_month(now))
    found = {
        (quota.team_id, quota.gpu_model): _limit(quota, spent if budgets else None, now)
        for quota in quotas
    }
    loans = list(live_loans(now))
    parents = _parents() if loans else {}
    for loan in loans:
        lend(found, loan, parents)
    return tuple(found.values())


def live_loans(now: datetime) -> QuerySet[Loan]:
    """The loans that hold at a moment."""
    open_ = Q(ended_at=None) | Q(ended_at__gt=now)
    return Loan.objects.filter(open_, from_at__lte=now, until_at__gt=now).order_by("id")


def lend(
    found: dict[tuple[int, str], Limit], loan: Loan, parents: Mapping[int, int | None]
) -> None:
    """Move what is lent between the limits of the two teams and of those above only one of them."""
    model = loan.gpu_model
    giving, taking = _chain(loan.lender_id, parents), _chain(loan.borrower_id, parents)
    for team in giving:
        if team not in taking and (team, model) in found:
            found[team, model] = _moved(found[team, model], -loan.milli)
    for team in taking:
        if team in giving:
            continue
        if (team, model) in found:
            found[team, model] = _moved(found[team, model], loan.milli)
        elif team == loan.borrower_id:
            found[team, model] = Limit(team, model, None, nominal_milli=loan.milli)


def _moved(limit: Limit, milli: int) -> Limit:
    most = None if limit.milli is None else max(0, limit.milli + milli)
    return replace(limit, milli=most, nominal_milli=max(0, limit.nominal_milli + milli))


def _limit(quota: Quota, spent: Mapping[tuple[int, str], int] | None, now: datetime) -> Limit:
    return Limit(
        quota.team_id,
        quota.gpu_model,
        quota.limit_milli,
        quota.cpus,
        quota.memory_mib,
        nominal_milli=quota.nominal_milli,
        lending_milli=quota.lending_limit_milli,
        user_milli=quota.user_milli,
        budget=None if spent is None else _budget(quota, spent, now),
    )


def _budget(quota: Quota, spent: Mapping[tuple[int, str], int], now: datetime) -> Budget | None:
    if quota.gpu_hours_a_month is None:
        return None
    return Budget(
        quota.gpu_hours_a_month * HOUR_MILLI_S,
        spent.get((quota.team_id, quota.gpu_model), 0),
        quota.budget_is_hard,
        int(_renewal(now).timestamp()) * 1_000_000,
    )


def _renewal(now: datetime) -> datetime:
    years, month = divmod(now.month, 12)
    return datetime(now.year + years, month + 1, 1, tzinfo=now.tzinfo)


def _subtrees(used: Mapping[tuple[int, str], int]) -> dict[tuple[int, str], int]:
    """What leaves used, counted into every team above them, by model and in all."""
    total: dict[tuple[int, str], int] = defaultdict(int)
    parents = _parents()
    for (leaf, model), milli_s in used.items():
        for team in _chain(leaf, parents):
            for key in {model, ""}:
                total[team, key] += milli_s
    return total


def _parents() -> dict[int, int | None]:
    return dict(Team.objects.values_list("pk", "parent_id"))


def _chain(team: int, parents: Mapping[int, int | None]) -> list[int]:
    chain: list[int] = []
    link: int | None = team
    while link is not None and link not in chain:
        chain.append(link)
        link = parents.get(link)
    return chain
