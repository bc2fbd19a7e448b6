"""The API of reservations: whole to their team, blocks without names to all, once per key."""

from datetime import timedelta

import pytest

from nodes import clock
from scheduling.models import Reservation
from tests import builders
from tests.portal.api_door import door
from tests.scheduling.test_reservations import book

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def node(shop):
    return builders.node("n1")


def order(**more) -> dict:
    return {"team": "vision", "gpus": 2, "duration": "1h"} | more


def test_a_booking_is_made_once_under_one_key(node, alice):
    program = door(alice)

    made = [program.post("reservations", order(), key="k1") for _ in range(2)]
    assert [answer.status_code for answer in made] == [201, 201]
    assert made[0].json() == made[1].json()
    assert Reservation.objects.count() == 1
    assert made[0]["Location"] == f"/api/v1/reservations/{made[0].json()['id']}"
    assert [card["index"] for card in made[0].json()["cards"]] == [0, 1]


def test_a_foreign_reservation_is_not_there_and_its_cards_are_busy_without_a_name(node, alice, bob):
    row = book(bob, clock.now(), HOUR, gpus=3, team="speech", title="secret plan")
    program = door(alice)

    for method in ("GET", "PATCH", "DELETE"):
        assert program.any(method, f"reservations/{row.pk}").status_code == 404
    listed = program.get("reservations")
    assert listed.json()["results"] == []
    (busy,) = listed.json()["busy"]
    assert (busy["node"], busy["gpus"]) == ("n1", [0, 1, 2])
    for name in ("bob", "speech", "secret"):
        assert name not in listed.content.decode()


def test_who_may_book_and_change(node, alice, carol, bob, root):
    row = book(carol, clock.now(), HOUR, gpus=2)

    assert door(alice).post("reservations", order(team="speech")).status_code == 403
    assert door(alice).post("reservations", order(kind="maintenance")).status_code == 403
    assert door(alice).any("DELETE", f"reservations/{row.pk}").status_code == 403
    assert door(carol).any("DELETE", f"reservations/{row.pk}").json()["state"] == "cancelled"
    made = door(root).post("reservations", {"kind": "maintenance", "on": ["n1"], "duration": "1h"})
    assert made.status_code == 201 and made.json()["team"] is None
    assert door(alice).get(f"reservations/{made.json()['id']}").status_code == 404


def test_a_change_is_of_the_whole(node, alice):
    program = door(alice)
    made = program.post("reservations", order(start=(clock.now() + HOUR).isoformat())).json()

    changed = program.client.patch(
        f"/api/v1/reservations/{made['id']}",
        {"gpus": 4, "duration": "2h", "title": "demo"},
        content_type="application/json",
        headers=program.auth,
    ).json()
    assert (changed["gpus"], len(changed["cards"]), changed["title"]) == (4, 4, "demo")
    unknown = program.client.patch(
        f"/api/v1/reservations/{made['id']}",
        {"team": "speech"},
        content_type="application/json",
        headers=program.auth,
    )
    assert unknown.status_code == 400 and "team" in unknown.json()["fields"]


def test_the_next_free_slot_is_said_and_can_be_booked(node, alice, bob):
    row = book(bob, clock.now(), timedelta(), 2 * HOUR, gpus=8, team="speech")
    program = door(alice)

    said = program.get("reservations/next-free?gpus=8&duration=1h&team=vision").json()
    assert said["start"] >= row.end_at.isoformat()[:16]
    made = program.post("reservations", order(gpus=8, start=said["start"]))
    assert made.status_code == 201
    assert program.get("reservations/next-free?gpus=9").status_code == 409
    assert program.get("reservations/next-free?team=speech").status_code == 403


@pytest.mark.parametrize(
    "query",
    ["since=yesterday", "since=2026-12-01T00:00", "until=2000-01-01T00:00Z", "colour=red",
     "since=2026-12-01T00:00Z&until=2036-12-01T00:00Z", "mine=perhaps"],
)  # fmt: skip
def test_a_window_that_is_none_is_refused_by_name(node, alice, query):
    answer = door(alice).get(f"reservations?{query}")

    assert answer.status_code == 400 and answer.json()["fields"]


def test_when_the_next_booking_begins_is_shown(node, alice, bob):
    now = clock.now()
    first = book(alice, now, HOUR, HOUR, gpus=8)
    after = book(bob, now, 5 * HOUR, gpus=1, team="speech")

    (shown,) = door(alice).get("reservations").json()["results"]
    assert shown["id"] == first.pk
    assert shown["extendable_until"][:19] == after.start_at.isoformat()[:19]
