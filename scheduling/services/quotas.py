"""Quotas: what a team may hold, set by a service, checked against the whole tree, noted.

Lowering one never stops a job: what is then held above it counts as borrowed and may be taken
back. A quota is a limit of the ledger, so its change takes the ledger lock.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from nodes import hints
from scheduling import audit, ledger
from scheduling.actors import Actor
from scheduling.errors import InvalidOrder
from scheduling.models import Quota, Team

_AMOUNTS = (
    "nominal_milli",
    "borrowing_limit_milli",
    "lending_limit_milli",
    "user_milli",
    "cpus",
    "memory_mib",
    "gpu_hours_a_month",
)


def save_quota(actor: Actor, quota: Quota, *, at: datetime) -> Quota:
    """Set what a team may hold of a model (all models when empty). Takes the ledger lock.

    Raises InvalidOrder, naming fields, for amounts below zero, no or a zero weight, lending more
    than there is, and teams that would have more than the team above them.
    """
    _refuse_odd_numbers(quota)
    with ledger.locked():
        rows = [*Quota.objects.filter(gpu_model=quota.gpu_model).exclude(pk=quota.pk), quota]
        refuse_more_than_the_parent(rows, touched=quota)
        quota.save()
        audit.note(
            actor,
            "set quota",
            f"team {quota.team.name}",
            at=at,
            team_id=quota.team_id,
            gpu_model=quota.gpu_model,
            weight=quota.weight,
            **{name: getattr(quota, name) for name in _AMOUNTS},
        )
        hints.cycle_soon(f"quota of {quota.team.name}")
    return quota


def remove_quota(actor: Actor, quota: Quota, *, at: datetime) -> None:
    """Drop a quota row: no limit at that level any more, and nothing of its own."""
    with ledger.locked():
        quota.delete()
        audit.note(actor, "remove quota", f"team {quota.team.name}", at=at, team_id=quota.team_id)
        hints.cycle_soon(f"quota of {quota.team.name}")


def refuse_more_than_the_parent(rows: Iterable[Quota], *, touched: Quota | None = None) -> None:
    """Children never sum above their parent; the rest is the subtree's shared pool.

    ``rows`` are all quotas of one model. A team without a row counts as the teams below it do.
    """
    own = {row.team_id: row.nominal_milli for row in rows}
    children: dict[int, list[int]] = defaultdict(list)
    names: dict[int, str] = {}
    for pk, name, parent in Team.objects.order_by("name").values_list("pk", "name", "parent_id"):
        names[pk] = name
        if parent is not None:
            children[parent].append(pk)
    for team_id, nominal in own.items():
        shares = {names[c]: _total(c, own, children) for c in children[team_id]}
        if sum(shares.values()) > nominal:
            _refuse(names[team_id], nominal, shares, touched)


def _total(team_id: int, own: dict[int, int], children: dict[int, list[int]]) -> int:
    if team_id in own:
        return own[team_id]
    return sum(_total(child, own, children) for child in children[team_id])


def _refuse(parent: str, nominal: int, shares: dict[str, int], touched: Quota | None) -> None:
    total = sum(shares.values())
    each = ", ".join(f"{name} {milli / 1000:g}" for name, milli in shares.items() if milli)
    told = f"{parent} has {nominal / 1000:g}"
    if touched is not None and touched.team.name in shares:
        left = max(0, nominal - total + touched.nominal_milli)
        told += f". At most {left / 1000:g} is left for {touched.team.name}"
    sentence = f"The teams below {parent} would have {total / 1000:g} GPUs; {told} ({each})."
    raise InvalidOrder(
        sentence,
        next_step="Lower another team's share first, or raise the parent's.",
        fields={"nominal_milli": sentence},
    )


def _refuse_odd_numbers(quota: Quota) -> None:
    fields = {
        name: f"{name} is {value}; it is 0 or more."
        for name in _AMOUNTS
        if (value := getattr(quota, name)) is not None and value < 0
    }
    weight = quota.weight
    if weight is None or weight < 1:
        told = "missing" if weight is None else weight
        fields["weight"] = f"weight is {told}; it is 1 or more, such as 3 beside another team's 1."
    lends = quota.lending_limit_milli
    if lends is not None and lends > quota.nominal_milli:
        fields["lending_limit_milli"] = (
            f"It has {quota.nominal_milli} milli-GPU of its own, so it lends 0 to that many, "
            f"not {lends}."
        )
    if fields:
        raise InvalidOrder(
            f"The quota of {quota.team.name} cannot be set so: {' '.join(fields.values())}",
            next_step="Change the fields that are named.",
            fields=fields,
        )
