"""The demo's cast: two teams, five people with passwords, three priority classes, its nodes.

Safe to run again: what people changed since is left alone; what is missing (a dropped database, a
lost demo.json) is made anew, with the passwords of demo.json where it has them. ``--withdraw``
closes the demo's accounts and takes its nodes out of work, for a portal that others can reach.
"""

import secrets
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser, OutputWrapper
from knox import crypto
from knox.models import AuthToken

from nodes import clock
from nodes.models import Node
from portal.access import OPERATORS
from portal.supervisor import demo
from portal.supervisor import home as folder
from scheduling.actors import COMMAND
from scheduling.models import Member, Pool, PriorityClass, Quota, Team
from scheduling.services import nodes, quotas, teams

ROOT_TEAM = "lab"
GPUS_EACH = 16
# name -> (team, role); no team: an operator
PEOPLE = {
    "alice": ("vision", "member"),
    "carol": ("vision", "lead"),
    "bob": ("speech", "member"),
    "dave": ("speech", "lead"),
    "root": ("", "operator"),
}
PRIORITIES: dict[str, dict[str, Any]] = {
    "low": {"value": 100, "preemptible": True, "min_runtime_s": 0},
    "normal": {"value": 200},
    "high": {"value": 300, "may_preempt": True},
}


class Command(BaseCommand):
    """Make the demo's people, teams and limits, or withdraw them."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--withdraw", action="store_true", help="close the demo's accounts")

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(settings.GANGWAY_HOME) / "demo.json"
        if options["withdraw"]:
            withdraw(path, at=clock.now())
            return
        first_time = not path.exists()
        seed(path, at=clock.now())
        enrol(path.parent, again=first_time, say=self.stdout)
        self.stdout.write(f"{len(PEOPLE)} demo people can sign in; {path} has their passwords.")


def seed(path: Path, *, at: datetime) -> None:
    """Make what is missing and write ``path`` (mode 0600)."""
    root = _team(ROOT_TEAM, None, at=at)
    leaves = {name: _team(name, root, at=at) for name, _ in PEOPLE.values() if name}
    for team in leaves.values():
        _quota(team, at=at)
    for name, rules in PRIORITIES.items():
        if not PriorityClass.objects.filter(name=name).exists():
            teams.save_rules(COMMAND, PriorityClass(name=name, **rules), at=at)
    if not Pool.objects.exists():
        teams.save_rules(COMMAND, Pool(name="default"), at=at)
    known = folder.read(path).get("users", {})
    users = {
        name: _person(name, team, role, known.get(name, {}), leaves, at=at)
        for name, (team, role) in PEOPLE.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    folder.write_private(path, {"url": settings.GANGWAY_URL, "users": users})


def enrol(home: Path, *, again: bool, say: OutputWrapper) -> None:
    """Enrol the demo's nodes as an operator does: the unknown ones, or (``again``) all."""
    for node in demo.known(home):
        place = {"name": node.name, "address": "127.0.0.1", "port": node.port}
        if again or not Node.objects.filter(**place).exists():
            call_command(*demo.enrol_words(node), stdout=say)


def withdraw(path: Path, *, at: datetime) -> None:
    """Close the accounts that ``path`` names, take the demo's nodes out of work, forget both."""
    for user in User.objects.filter(username__in=folder.read(path).get("users", {})):
        AuthToken.objects.filter(user=user).delete()
        user.is_active = False
        user.set_unusable_password()
        user.save()
    for entry in demo.known(path.parent):
        for node in Node.objects.filter(name=entry.name, address="127.0.0.1", port=entry.port):
            nodes.set_accepts_work(COMMAND, node, False, at=at, reason="demo withdrawn")
    path.unlink(missing_ok=True)


def _team(name: str, parent: Team | None, *, at: datetime) -> Team:
    found = Team.objects.filter(name=name).first()
    return found or teams.save_team(COMMAND, Team(name=name, parent=parent), at=at)


def _quota(team: Team, *, at: datetime) -> None:
    if not Quota.objects.filter(team=team).exists():
        limit = Quota(team=team, nominal_milli=GPUS_EACH * 1000, borrowing_limit_milli=0)
        quotas.save_quota(COMMAND, limit, at=at)


def _person(
    name: str,
    team: str,
    role: str,
    known: dict[str, str],
    leaves: dict[str, Team],
    *,
    at: datetime,
) -> dict[str, str]:
    """Their line of demo.json; the account, its membership and a token exist afterwards."""
    user = User.objects.filter(username=name).first()
    password = known.get("password") or secrets.token_urlsafe(12)
    if user is None or not known:
        user = teams.make_user(COMMAND, name, password, at=at)
        user.is_active = True
        user.is_staff = role != "member"  # the admin pages; what they show there is theirs
        user.is_superuser = role == "operator"
        user.save()
    if role == "operator":
        user.groups.add(Group.objects.get_or_create(name=OPERATORS)[0])
    elif not Member.objects.filter(user=user, team=leaves[team]).exists():
        teams.save_member(COMMAND, Member(user=user, team=leaves[team], role=role), at=at)
    return {
        "password": password,
        "token": _token(user, known.get("token", "")),
        "team": team,
        "role": role,
    }


def _token(user: User, known: str) -> str:
    """The known token while the database has it, else a new one."""
    if known and AuthToken.objects.filter(user=user, digest=crypto.hash_token(known)).exists():
        return known
    token: str = AuthToken.objects.create(user)[1]
    return token
