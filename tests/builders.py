"""Rows in few words. What matters to a story is an argument; the rest is dull and hidden."""

from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, User

from nodes import clock
from nodes.models import Gpu, Node
from portal.access import AUDITORS, OPERATORS
from scheduling.actors import COMMAND, person
from scheduling.models import ControlLease, Job, Ledger, Member, Pool, PriorityClass, Quota, Team
from scheduling.orders import JobOrder
from scheduling.services import jobs
from scheduling.services.nodes import put_to_work
from scheduling.states import DONE


@dataclass
class Shop:
    users: dict[str, User] = field(default_factory=dict)
    teams: dict[str, Team] = field(default_factory=dict)
    pool: Pool | None = None


def shop() -> Shop:
    """Teams vision and speech below lab, 16 GPUs each, and the cast."""
    made = Shop()
    # A test that ends by truncation takes along what migrations wrote.
    Ledger.objects.get_or_create(pk=1)
    ControlLease.objects.get_or_create(pk=1)
    made.pool = Pool.objects.create(name="default")
    lab = Team.objects.create(name="lab", title="Lab")
    made.teams["lab"] = lab
    for name in ("vision", "speech"):
        team = Team.objects.create(name=name, title=name.title(), parent=lab)
        made.teams[name] = team
        Quota.objects.create(team=team, nominal_milli=16_000, borrowing_limit_milli=0)
    for name, value, rules in (
        ("low", -100, {"preemptible": True, "min_runtime_s": 0}),
        ("normal", 0, {}),
        ("high", 100, {"may_preempt": True}),
    ):
        PriorityClass.objects.create(name=name, value=value, **rules)
    for name, team, role in (
        ("alice", "vision", "member"),
        ("carol", "vision", "lead"),
        ("bob", "speech", "member"),
        ("dave", "speech", "lead"),
    ):
        made.users[name] = User.objects.create_user(name, password=f"{name}-password-1")
        Member.objects.create(team=made.teams[team], user=made.users[name], role=role)
    made.users["root"] = User.objects.create_user("root", password="root-password-1")
    operators, _ = Group.objects.get_or_create(name=OPERATORS)
    made.users["root"].groups.add(operators)
    Group.objects.get_or_create(name=AUDITORS)
    return made


def node(
    name: str, *, cards: int = 8, model: str = "H100", pool: str = "default", **more: Any
) -> Node:
    """An enrolled node in its pool, with free, healthy cards."""
    at = clock.now()
    facts: dict[str, Any] = {
        "address": "127.0.0.1",
        "host_key": "ssh-ed25519 AAAA",
        "private_key": "sealed",
        "public_key": "ssh-ed25519 BBBB",
        "root": "/tmp/gangway-test-root",
        "cpus": 64,
        "memory_mib": 512 * 1024,
        "disk_gib": 1000,
        "boot_id": "boot-1",
        "seen_at": at,
        "probed_at": at,
    } | more
    made = Node.objects.create(name=name, **facts)
    Gpu.objects.bulk_create(
        Gpu(
            uuid=f"GPU-{name}-{index}",
            node=made,
            index=index,
            model=model,
            product=f"NVIDIA {model}",
            memory_mib=81559,
            seen_at=at,
        )
        for index in range(cards)
    )
    put_to_work(COMMAND, made, pool=pool)
    return made


def job(user: User, *, team: str = "", gpus: int = 1, command: str = "true", **more: Any) -> Job:
    """A job submitted by ``user`` for their (first) team."""
    chosen = team or user.memberships.select_related("team").first().team.name
    order = JobOrder(team=chosen, command=command, gpus=gpus, **more)
    return jobs.submit(person(user), order, user_id=user.pk, at=clock.now())


def row(user: User, *, state: str = "PENDING", **more: Any) -> Job:
    """A bare job row in any state, past every service: for tests of the table alone."""
    at = clock.now()
    facts: dict[str, Any] = {
        "team": Team.objects.get(name="vision"),
        "user": user,
        "pool": Pool.objects.get(),
        "priority_class": PriorityClass.objects.get(name="normal"),
        "command": "true",
        "gpus": 1,
        "time_limit_s": 60,
        "state": state,
        "submitted_at": at,
        "ended_at": at if state in DONE else None,
    } | more
    return Job.objects.create(**facts)
