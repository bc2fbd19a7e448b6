"""Who may do what over the API: role × action, and what lies outside is not found."""

import pytest
from django.contrib.auth.models import Group, User

from portal.access import AUDITORS
from scheduling import leases
from scheduling.models import Attempt, Job, Part
from tests import builders
from tests.portal.api_door import door
from tests.portal.test_api_errors import refused

pytestmark = pytest.mark.django_db

# alice's job, in vision. carol leads vision; bob and dave are of speech; root operates.
ACTIONS = {
    "show": ("get", "jobs/{}"),
    "attempts": ("get", "jobs/{}/attempts"),
    "explain": ("get", "jobs/{}/explain"),
    "log": ("get", "jobs/{}/log"),
    "hold": ("post", "jobs/{}/hold"),
    "release": ("post", "jobs/{}/release"),
    "cancel": ("post", "jobs/{}/cancel"),
}
READS = ("show", "attempts", "explain", "log")
TABLE = {
    "alice": dict.fromkeys(ACTIONS, 200),
    "carol": dict.fromkeys(ACTIONS, 200),
    "root": dict.fromkeys(ACTIONS, 200),
    "bob": dict.fromkeys(ACTIONS, 404),
    "dave": dict.fromkeys(ACTIONS, 404),
    "erin": {action: 200 if action in READS else 403 for action in ACTIONS},  # vision's member too
    "audit": {action: 200 if action in READS else 403 for action in ACTIONS},
    "nobody": dict.fromkeys(ACTIONS, 401),
}


@pytest.fixture
def people(shop):
    builders.node("n1")
    erin = User.objects.create_user("erin")
    shop.teams["vision"].members.create(user=erin, role="member")
    audit = User.objects.create_user("audit")
    audit.groups.add(Group.objects.get(name=AUDITORS))
    return {**shop.users, "erin": erin, "audit": audit, "nobody": None}


@pytest.mark.parametrize("who", TABLE)
def test_each_role_may_do_what_the_table_says(people, who):
    job = builders.job(people["alice"])
    program = door(people[who])

    for action, (method, route) in ACTIONS.items():
        answer = getattr(program, method)(route.format(job.pk))
        assert answer.status_code == TABLE[who][action], (who, action, answer.content)

    state = Job.objects.get(pk=job.pk).state
    assert state == ("CANCELLED" if TABLE[who]["cancel"] == 200 else "PENDING")


@pytest.mark.parametrize(
    ("who", "team", "status"),
    [
        ("alice", "vision", 201),
        ("carol", "vision", 201),
        ("root", "vision", 201),
        ("bob", "vision", 404),
        ("alice", "speech", 404),
        ("alice", "lab", 404),
        ("audit", "vision", 403),
        ("nobody", "vision", 401),
    ],
)
def test_jobs_are_submitted_for_ones_own_team_only(people, who, team, status):
    order = {"team": team, "command": "true", "gpus": 1}

    answer = door(people[who]).post("jobs", order)

    assert answer.status_code == status, answer.content
    assert Job.objects.count() == (1 if status == 201 else 0)


def test_a_team_of_others_and_no_team_are_refused_in_the_same_words(people):
    def told(team):
        order = {"team": team, "command": "true", "gpus": 1}
        return refused(door(people["bob"]).post("jobs", order), 404, "not_found")

    assert str(told("vision")).replace("vision", "X") == str(told("absent")).replace("absent", "X")


def test_foreign_jobs_are_in_no_list(people):
    builders.job(people["alice"])

    assert door(people["bob"]).get("jobs").json()["results"] == []
    assert door(people["bob"]).get("jobs?team=vision").json()["results"] == []


def test_a_card_in_use_names_its_job_to_those_who_may_see_it_only(people):
    job = builders.job(people["alice"])
    attempt = Attempt.objects.create(job=job, number=1, placed_at=job.submitted_at)
    node = builders.node("n2", cards=1)
    part = Part.objects.create(
        attempt=attempt, node=node, ranks=1, cpus=1, memory_mib=1, port=29400
    )
    leases.take(part, [node.gpus.get().card.pk], at=job.submitted_at)

    def card(who):
        cards = door(people[who]).get("gpus").json()["results"]
        (found,) = (gpu for gpu in cards if gpu["node"] == "n2")
        return found["use"], found["job"], found["team"]

    assert card("alice") == card("root") == ("held", job.pk, "vision")
    assert card("bob") == ("held", None, None)


def test_what_troubles_a_node_is_told_to_operators(people):
    builders.node("n3", alarm="The host key of 10.0.0.3 changed.")

    def trouble(who):
        nodes = door(people[who]).get("nodes").json()["results"]
        return next(node["trouble"] for node in nodes if node["name"] == "n3")

    assert "10.0.0.3" in trouble("root")
    assert trouble("alice") == ""


def test_me_and_teams_say_what_the_person_may_use(people):
    me = door(people["carol"]).get("me").json()

    assert (me["username"], me["operator"]) == ("carol", False)
    assert [(team["name"], team["role"], team["limit_gpus"]) for team in me["teams"]] == [
        ("vision", "lead", 16)
    ]
    teams = door(people["root"]).get("teams").json()["results"]
    assert [team["name"] for team in teams] == ["lab", "speech", "vision"]
