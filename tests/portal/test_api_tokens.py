"""Tokens: made with a password or when signed in, seen once, gone when deleted."""

import pytest
from django.core.cache import cache
from redis.exceptions import ConnectionError as NoCache

from portal import guard
from scheduling.models import AuditEntry
from tests.portal.api_door import door
from tests.portal.test_api_errors import refused

pytestmark = pytest.mark.django_db

SIGN_IN = {"username": "alice", "password": "alice-password-1", "name": "laptop"}


def test_name_and_password_give_a_token_that_opens_the_api(alice):
    made = door().post("tokens", SIGN_IN)

    assert made.status_code == 201 and made["Cache-Control"] == "no-store"
    headers = {"Authorization": f"Bearer {made.json()['token']}"}
    assert door().get("me", headers=headers).json()["username"] == "alice"
    assert made.json()["token"].startswith("gw_")
    assert AuditEntry.objects.filter(verb="create token", user=alice).exists()


def test_the_list_shows_names_and_prefixes_and_never_a_token(alice, bob):
    program = door(alice)
    made = program.post("tokens", {"name": "ci"}).json()
    door(bob).post("tokens", {"name": "other"})

    listed = program.get("tokens")

    assert [token["name"] for token in listed.json()["results"]] == ["", "ci"]
    assert made["prefix"] == made["token"][:15] in listed.content.decode()
    assert made["token"] not in listed.content.decode()


def test_a_deleted_token_opens_nothing_any_more_and_others_cannot_delete_it(alice, bob):
    made = door(alice).post("tokens", {"name": "ci"}).json()
    headers = {"Authorization": f"Bearer {made['token']}"}

    assert door(bob).any("DELETE", f"tokens/{made['prefix']}").status_code == 404
    assert door().get("me", headers=headers).status_code == 200
    assert door(alice).any("DELETE", f"tokens/{made['prefix']}").status_code == 204
    assert door().get("me", headers=headers).status_code == 401


def test_a_person_who_left_has_no_token_that_works(alice):
    program = door(alice)
    alice.is_active = False
    alice.save()

    assert program.get("me").status_code == 401
    assert door().post("tokens", SIGN_IN).status_code == 401


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({**SIGN_IN, "password": "wrong"}, 401, "wrong_credentials"),
        ({**SIGN_IN, "username": "nobody"}, 401, "wrong_credentials"),
        ({"username": "alice"}, 400, "invalid_request"),
        ({"password": "x"}, 400, "invalid_request"),
        ({**SIGN_IN, "username": "a\0"}, 400, "invalid_request"),
        ({**SIGN_IN, "password": "x" * 5000}, 400, "invalid_request"),
        ({**SIGN_IN, "username": ["alice"]}, 400, "invalid_request"),
        ({**SIGN_IN, "expiry": 1}, 400, "invalid_request"),
        ({}, 401, "not_signed_in"),
    ],
)
def test_what_is_no_sign_in_gives_no_token(alice, body, status, code):
    refused(door().post("tokens", body), status, code)


def test_guessing_is_stopped_before_the_password_is_looked_at(alice):
    wrong = {**SIGN_IN, "password": "wrong"}
    for _ in range(guard.PER_NAME_AND_ADDRESS):
        assert door().post("tokens", wrong).status_code == 401

    answer = door().post("tokens", SIGN_IN)

    refused(answer, 429, "too_many_tries")
    assert answer["Retry-After"] == str(guard.WINDOW_S)
    elsewhere = door(REMOTE_ADDR="10.9.9.9").post("tokens", SIGN_IN)
    assert elsewhere.status_code == 201


def test_one_address_alone_locks_nobody_out_everywhere(alice):
    for _ in range(guard.PER_NAME + 5):
        door().post("tokens", {**SIGN_IN, "password": "wrong"})
    elsewhere = door(REMOTE_ADDR="10.9.9.9").post("tokens", SIGN_IN)
    assert elsewhere.status_code == 201


def test_all_spellings_of_a_name_share_its_tries(alice, client):
    for number in range(guard.PER_NAME_AND_ADDRESS):
        spelt = " " * number + "\uff41LICE"
        client.post("/signin/", {"username": spelt, "password": "wrong"})
    refused(door().post("tokens", SIGN_IN), 429, "too_many_tries")


def test_the_right_password_forgives_the_tries_before_it(alice):
    for _ in range(3):
        for _ in range(guard.PER_NAME_AND_ADDRESS - 1):
            door().post("tokens", {**SIGN_IN, "password": "wrong"})
        assert door().post("tokens", SIGN_IN).status_code == 201


def test_an_own_account_does_not_forgive_guesses_at_others(alice, monkeypatch):
    monkeypatch.setattr(guard, "PER_ADDRESS", 5)
    for number in range(5):
        door().post("tokens", {**SIGN_IN, "username": f"guess{number}"})
        door().post("tokens", SIGN_IN) if number < 4 else None

    refused(door().post("tokens", SIGN_IN), 429, "too_many_tries")


def test_without_its_counters_the_portal_looks_at_no_password(alice, monkeypatch):
    def gone(*args, **kwargs):
        raise NoCache("connection refused")

    monkeypatch.setattr(cache, "add", gone)

    refused(door().post("tokens", SIGN_IN), 503, "unavailable")
    assert door(alice).get("me").status_code == 200
