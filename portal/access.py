"""Who may see and do what: the only place that asks for roles.

Operators (the group, or superusers) may do everything, auditors may see everything; a lead
holds for the subtree; a member sees the team's jobs and acts on their own. What a person may
not see is not found, never forbidden.
"""

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

from nodes.models import Node
from scheduling.errors import NotAllowed
from scheduling.models import Job, Member, Reservation, Team
from scheduling.queries import Viewer, subtree_ids

OPERATORS = "operators"
AUDITORS = "auditors"

Person = User | AbstractBaseUser | AnonymousUser


@dataclass(frozen=True, slots=True)
class Roles:
    """Everything a page may ask about one person, read at once by ``roles``."""

    user_id: int
    operator: bool
    auditor: bool
    member_of: frozenset[int]
    leads: frozenset[int]
    led: frozenset[int]

    @property
    def viewer(self) -> Viewer:
        """What this person may see."""
        everything = self.operator or self.auditor
        return Viewer(self.user_id, None if everything else self.member_of | self.led)

    @property
    def manages(self) -> bool:
        """May open the admin pages."""
        return self.operator or self.auditor or bool(self.led)

    def may_act_on(self, job: Job) -> bool:
        """As the function of this name, without a query."""
        if self.operator or job.team_id in self.led:
            return True
        return job.user_id == self.user_id and job.team_id in self.member_of

    def may_submit(self, team_id: int) -> bool:
        """As the function of this name, without a query."""
        return self.operator or team_id in self.member_of or team_id in self.led

    @property
    def below(self) -> frozenset[int]:
        """Led teams whose share this person deals out: those with a led team above them."""
        return self.led - self.leads


def roles(user: Person) -> Roles:
    """Read a person's roles: two queries, three for a lead.

    ``leads`` are the topmost teams they lead, ``led`` those and every team below them.
    """
    if not isinstance(user, User) or not user.is_active:
        return Roles(0, False, False, frozenset(), frozenset(), frozenset())
    groups = set(user.groups.values_list("name", flat=True))
    mine = dict(Member.objects.filter(user=user).values_list("team_id", "role"))
    heads = frozenset(team for team, role in mine.items() if role == Member.Role.LEAD)
    led = subtree_ids(heads) if heads else frozenset()
    return Roles(
        user_id=user.pk,
        operator=user.is_superuser or OPERATORS in groups,
        auditor=AUDITORS in groups,
        member_of=frozenset(mine),
        leads=heads - _below(heads, led),
        led=led,
    )


def _below(heads: frozenset[int], led: frozenset[int]) -> frozenset[int]:
    """Those heads that lie below another head."""
    if len(heads) < 2:
        return frozenset()
    parents = dict(Team.objects.filter(pk__in=led).values_list("pk", "parent_id"))
    return frozenset(head for head in heads if parents.get(head) in led)


def is_operator(user: Person) -> bool:
    """May act on nodes, pools and everybody's jobs."""
    if not isinstance(user, User) or not user.is_active:
        return False
    return user.is_superuser or user.groups.filter(name=OPERATORS).exists()


def is_auditor(user: Person) -> bool:
    """May see everything and change nothing by it."""
    return isinstance(user, User) and user.is_active and user.groups.filter(name=AUDITORS).exists()


def viewer(user: Person) -> Viewer:
    """What this person may see."""
    if not isinstance(user, User):
        return Viewer(user_id=0, team_ids=frozenset())
    if is_operator(user) or is_auditor(user):
        return Viewer(user_id=user.pk, team_ids=None)
    mine = Member.objects.filter(user=user).values_list("team_id", flat=True)
    return Viewer(user_id=user.pk, team_ids=frozenset(mine) | led_team_ids(user))


def led_team_ids(user: Person) -> frozenset[int]:
    """The teams this person leads, with everything below them."""
    if not isinstance(user, User):
        return frozenset()
    led = Member.objects.filter(user=user, role=Member.Role.LEAD).values_list("team_id", flat=True)
    return subtree_ids(led)


def may_submit(user: Person, team_id: int) -> bool:
    """Members and leads for their own teams, operators for any."""
    if is_operator(user):
        return True
    if not isinstance(user, User):
        return False
    member = Member.objects.filter(user=user, team_id=team_id).exists()
    return member or team_id in led_team_ids(user)


def may_act_on(user: Person, job: Job) -> bool:
    """Cancel, hold, release: the owner while a member, the team's leads, operators."""
    if is_operator(user):
        return True
    if not isinstance(user, User):
        return False
    if job.team_id in led_team_ids(user):
        return True
    owner = job.user_id == user.pk
    return owner and Member.objects.filter(user=user, team_id=job.team_id).exists()


def require_act(user: Person, job: Job) -> None:
    """Raise NotAllowed unless the person may act on a job they see."""
    if not may_act_on(user, job):
        raise NotAllowed(
            f"Job {job.pk} belongs to {job.user.get_username()}; you may look at it only.",
            next_step=f"Ask them or a lead of {job.team.name}.",
        )


def require_book(user: Person, team_name: str, kind: str) -> None:
    """Members, leads and operators book for a team; operators alone book maintenance.

    A team that is not the person's is told like one that does not exist.
    """
    if is_operator(user):
        return
    if kind == Reservation.Kind.MAINTENANCE:
        raise NotAllowed(
            "Only operators book maintenance.", next_step="Book for your team, or ask an operator."
        )
    team = Team.objects.filter(name=team_name).first()
    if team is None or not may_submit(user, team.pk):
        raise NotAllowed(
            f"You are in no team {team_name!r}.", next_step="Ask a lead of the team to add you."
        )


def may_change(user: Person, row: Reservation) -> bool:
    """Who booked it while a member, the team's leads, operators."""
    if is_operator(user):
        return True
    if not isinstance(user, User) or row.team_id is None:
        return False
    if row.team_id in led_team_ids(user):
        return True
    owner = row.user_id == user.pk
    return owner and Member.objects.filter(user=user, team_id=row.team_id).exists()


def require_change(user: Person, row: Reservation) -> None:
    """Raise NotAllowed unless the person may change a reservation they see."""
    if not may_change(user, row):
        raise NotAllowed(
            f"Reservation {row.pk} is {row.user.get_username()}'s; you may look at it only.",
            next_step="Ask them or a lead of the team.",
        )


def may_operate(user: Person, node: Node | None = None) -> bool:
    """Cordon, clear alarms, enrol: operators."""
    return is_operator(user)
