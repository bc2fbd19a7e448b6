"""Teams, members, priority classes and pools: every change by a service, noted.

Where a team hangs decides whose quota its jobs count against, so that takes the ledger lock.
"""

from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from nodes import hints
from scheduling import audit, ledger
from scheduling.actors import Actor
from scheduling.errors import InvalidOrder
from scheduling.models import Member, Pool, PriorityClass, Quota, Team
from scheduling.queries import subtree_ids

from .quotas import refuse_more_than_the_parent


def save_team(actor: Actor, team: Team, *, at: datetime) -> Team:
    """Add or change a team. A team with jobs stays a leaf; a tree stays a tree."""
    with ledger.locked():
        return _save_team(actor, team, at=at)


def _save_team(actor: Actor, team: Team, *, at: datetime) -> Team:
    _refuse_a_ring(team)
    if team.parent is not None and team.parent.jobs.exists():
        raise InvalidOrder(
            f"Team {team.parent.name} has jobs, so it cannot have teams below it.",
            next_step="Choose a parent without jobs.",
            fields={"parent": "A team with jobs cannot have teams below it."},
        )
    verb = "change" if team.pk else "add"
    team.save()
    _refuse_shares_that_do_not_fit()
    audit.note(actor, f"{verb} team", f"team {team.name}", at=at, team_id=team.pk)
    hints.cycle_soon(f"team {team.name}")
    return team


@transaction.atomic
def save_member(actor: Actor, member: Member, *, at: datetime) -> Member:
    """Put a person into a team, or change their role there."""
    member.save()
    audit.note(
        actor,
        "set member",
        f"team {member.team.name}",
        at=at,
        team_id=member.team_id,
        user=member.user.username,
        role=member.role,
    )
    return member


@transaction.atomic
def remove_member(actor: Actor, member: Member, *, at: datetime) -> None:
    """Take a person out of a team; their jobs stay the team's."""
    member.delete()
    audit.note(
        actor,
        "remove member",
        f"team {member.team.name}",
        at=at,
        team_id=member.team_id,
        user=member.user.username,
    )


@transaction.atomic
def save_rules(actor: Actor, rules: Pool | PriorityClass, *, at: datetime) -> None:
    """Add or change a pool or a priority class."""
    rules.save()
    kind = "pool" if isinstance(rules, Pool) else "priority class"
    audit.note(actor, f"set {kind}", f"{kind} {rules.name}", at=at)
    hints.cycle_soon(f"{kind} {rules.name}")


@transaction.atomic
def make_user(actor: Actor, name: str, password: str, *, at: datetime, **extra: Any) -> User:
    """Add a person with a password, or give them a new one."""
    user, _ = User.objects.get_or_create(username=name, defaults=extra)
    user.set_password(password)
    user.save()
    audit.note(actor, "set user", f"user {name}", at=at)
    return user


def _refuse_shares_that_do_not_fit() -> None:
    """A team that moves takes its share along."""
    rows: dict[str, list[Quota]] = {}
    for quota in Quota.objects.select_related("team"):
        rows.setdefault(quota.gpu_model, []).append(quota)
    try:
        for quotas in rows.values():
            refuse_more_than_the_parent(quotas)
    except InvalidOrder as why:
        raise InvalidOrder(
            why.cause, next_step=why.next_step, fields={"parent": why.cause}
        ) from None


def _refuse_a_ring(team: Team) -> None:
    if team.pk is not None and team.parent_id in subtree_ids([team.pk]):
        raise InvalidOrder(
            f"Team {team.name} would be below itself.",
            next_step="Choose another parent.",
            fields={"parent": "A team cannot be below itself."},
        )
