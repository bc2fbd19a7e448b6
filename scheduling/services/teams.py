"""Teams, members, quotas, priority classes and pools: every change by a service, noted.

Lowering a limit never stops a job; the cycle only places nothing more. A quota is a limit of
the ledger, so its change takes the ledger lock.
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


@transaction.atomic
def save_team(actor: Actor, team: Team, *, at: datetime) -> Team:
    """Add or change a team. A team with jobs stays a leaf; a tree stays a tree."""
    _refuse_a_ring(team)
    if team.parent is not None and team.parent.jobs.exists():
        raise InvalidOrder(
            f"Team {team.parent.name} has jobs, so it cannot have teams below it.",
            next_step="Choose a parent without jobs.",
            fields={"parent": "A team with jobs cannot have teams below it."},
        )
    verb = "change" if team.pk else "add"
    team.save()
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


def save_quota(actor: Actor, quota: Quota, *, at: datetime) -> Quota:
    """Set what a team may hold of a model (all models when empty). Takes the ledger lock."""
    with ledger.locked():
        _refuse_more_than_the_parent(quota)
        quota.save()
        audit.note(
            actor,
            "set quota",
            f"team {quota.team.name}",
            at=at,
            team_id=quota.team_id,
            gpu_model=quota.gpu_model,
            nominal_milli=quota.nominal_milli,
            borrowing_limit_milli=quota.borrowing_limit_milli,
        )
        hints.cycle_soon(f"quota of {quota.team.name}")
    return quota


def remove_quota(actor: Actor, quota: Quota, *, at: datetime) -> None:
    """Drop a quota row: no limit at that level any more."""
    with ledger.locked():
        quota.delete()
        audit.note(actor, "remove quota", f"team {quota.team.name}", at=at, team_id=quota.team_id)
        hints.cycle_soon(f"quota of {quota.team.name}")


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


def _refuse_a_ring(team: Team) -> None:
    if team.pk is not None and team.parent_id in subtree_ids([team.pk]):
        raise InvalidOrder(
            f"Team {team.name} would be below itself.",
            next_step="Choose another parent.",
            fields={"parent": "A team cannot be below itself."},
        )


def _refuse_more_than_the_parent(quota: Quota) -> None:
    """Children never sum above their parent's nominal; the rest is the subtree's shared pool."""
    parent = quota.team.parent
    own = Quota.objects.filter(team=parent, gpu_model=quota.gpu_model).first() if parent else None
    if parent is None or own is None:
        return
    siblings = Quota.objects.filter(team__parent=parent, gpu_model=quota.gpu_model)
    total = quota.nominal_milli + sum(
        other.nominal_milli for other in siblings if other.team_id != quota.team_id
    )
    if total > own.nominal_milli:
        sentence = (
            f"The teams below {parent.name} would have {total / 1000:g} GPUs; "
            f"{parent.name} has {own.nominal_milli / 1000:g}."
        )
        raise InvalidOrder(
            sentence,
            next_step="Lower another team's share first, or raise the parent's.",
            fields={"nominal_milli": sentence},
        )
