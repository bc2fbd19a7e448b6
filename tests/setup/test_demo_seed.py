"""The demo's cast: who can sign in, with what, and what a second run leaves alone."""

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import call_command
from knox.auth import TokenAuthentication
from knox.models import AuthToken

from portal import access
from portal.supervisor import home
from scheduling.models import Member, PriorityClass, Quota, Team

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path, settings):
    settings.GANGWAY_HOME = tmp_path
    return tmp_path


def seed(folder, *options):
    call_command("demo_seed", *options, verbosity=0)
    return home.read(folder / "demo.json")


def signed_in_by_token(token):
    return TokenAuthentication().authenticate_credentials(token.encode())[0]


def test_everybody_of_the_demo_signs_in_by_password_and_by_token(folder, settings):
    written = seed(folder)

    assert sorted(written["users"]) == ["alice", "bob", "carol", "dave", "root"]
    assert written["url"] == settings.GANGWAY_URL
    for name, person in written["users"].items():
        assert authenticate(username=name, password=person["password"]) is not None
        assert person["token"].startswith("gw_")
        assert signed_in_by_token(person["token"]).username == name
    assert (folder / "demo.json").stat().st_mode & 0o077 == 0


def test_roles_teams_and_limits_are_those_of_the_demo(folder):
    people = seed(folder)["users"]

    roles = {(m.user.username, m.team.name, m.role) for m in Member.objects.all()}
    assert roles == {(n, p["team"], p["role"]) for n, p in people.items() if p["team"]}
    assert access.is_operator(User.objects.get(username="root"))
    assert not access.is_operator(User.objects.get(username="carol"))
    assert {q.team.name: q.limit_milli for q in Quota.objects.all()} == {
        "vision": 16000,
        "speech": 16000,
    }
    assert set(Team.objects.get(name="lab").children.values_list("name", flat=True)) == {
        "vision",
        "speech",
    }
    low = PriorityClass.objects.get(name="low")
    assert (low.preemptible, low.min_runtime_s) == (True, 0)


def test_a_second_run_changes_nothing_that_people_changed(folder):
    first = seed(folder)
    Quota.objects.filter(team__name="vision").update(nominal_milli=4000)
    User.objects.get(username="alice").set_password("another")

    assert seed(folder) == first
    assert Quota.objects.get(team__name="vision").nominal_milli == 4000
    assert User.objects.count() == 5


def test_after_the_database_is_lost_the_known_passwords_work_again(folder):
    first = seed(folder)
    AuthToken.objects.all().delete()
    Member.objects.all().delete()
    User.objects.all().delete()

    again = seed(folder)["users"]

    assert {n: p["password"] for n, p in again.items()} == {
        n: p["password"] for n, p in first["users"].items()
    }
    assert signed_in_by_token(again["alice"]["token"]).username == "alice"


def test_a_withdrawn_demo_lets_nobody_of_it_in_and_spares_everybody_else(folder):
    people = seed(folder)["users"]
    own = User.objects.create_user("erin", password="her own password")

    seed(folder, "--withdraw")

    for name, person in people.items():
        assert authenticate(username=name, password=person["password"]) is None
    assert not AuthToken.objects.exists()
    assert not (folder / "demo.json").exists()
    assert authenticate(username="erin", password="her own password") == own


def test_withdrawing_what_was_no_demo_spares_a_person_who_is_called_root(folder):
    root = User.objects.create_user("root", password="not of the demo")

    seed(folder, "--withdraw")

    assert authenticate(username="root", password="not of the demo") == root
