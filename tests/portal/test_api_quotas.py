"""Quotas, loans and use over the API: numbers add up, and who may lend and give back."""

from datetime import UTC, datetime, timedelta

import pytest

from nodes import clock
from scheduling import cycle, usage
from scheduling.models import Attempt, Lease, Loan, Part, Quota
from tests import builders
from tests.portal.api_door import door

pytestmark = pytest.mark.django_db


def later(days: float) -> str:
    return (clock.now() + timedelta(days=days)).isoformat()


@pytest.fixture
def order():
    return {"lender": "vision", "borrower": "speech", "gpus": 4, "until_at": later(3)}


def test_a_quota_says_what_is_own_held_and_borrowed(alice, bob, shop):
    builders.node("a")
    Quota.objects.filter(team=shop.teams["vision"]).update(
        nominal_milli=2000, borrowing_limit_milli=None
    )
    builders.job(alice, gpus=5, priority="low")
    cycle.serve()

    (told,) = door(alice).get("quotas").json()["results"]

    assert {k: told[k] for k in ("team", "own_milli", "held_milli", "borrowed_milli")} == {
        "team": "vision", "own_milli": 2000, "held_milli": 5000, "borrowed_milli": 3000
    }  # fmt: skip
    assert told["limit_milli"] is None
    assert [one["team"] for one in door(bob).get("quotas").json()["results"]] == ["speech"]


@pytest.mark.parametrize(
    ("who", "status"), [("carol", 201), ("root", 201), ("alice", 403), ("dave", 404)]
)
def test_a_lead_lends_what_is_the_own_teams_and_nobody_else_does(who, status, order, shop):
    answer = door(shop.users[who]).post("loans", order)
    assert answer.status_code == status, answer.content
    assert Loan.objects.count() == (1 if status == 201 else 0)


def test_a_loan_shows_on_both_sides_and_in_the_quotas(order, carol, dave, bob):
    made = door(carol).post("loans", order).json()
    assert (made["milli"], made["made_by"]) == (4000, "carol")
    assert [one["id"] for one in door(dave).get("loans").json()["results"]] == [made["id"]]
    (told,) = door(bob).get("quotas").json()["results"]
    assert (told["nominal_milli"], told["own_milli"], told["limit_milli"]) == (16000, 20000, 20000)


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        ({"gpus": 0}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"gpus": 17}, "milli"),
        ({"borrower": "nobody"}, "borrower"),
        ({"borrower": "vision"}, "borrower"),
        ({"until_at": "tomorrow"}, "until_at"),
        ({"until_at": "2026-12-24T18:00:00"}, "until_at"),
        ({"until_at": "2026-13-99T18:00:00Z"}, "until_at"),
        ({"from_at": 7}, "from_at"),
        ({"price": 1}, "price"),
    ],
)
def test_a_bad_loan_is_refused_by_its_field(ask, field, order, carol):
    answer = door(carol).post("loans", order | ask)
    assert answer.status_code == 400, answer.content
    assert set(answer.json()["fields"]) == {field}


def test_the_same_key_lends_once(order, carol):
    for _ in range(2):
        assert door(carol).post("loans", order, key="k-1").status_code == 201
    assert Loan.objects.count() == 1


def test_a_loan_is_given_back_by_the_borrower_and_not_called_back(order, shop, carol):
    loan = door(carol).post("loans", order).json()
    route = f"loans/{loan['id']}/end"
    stranger = builders.User.objects.create_user("eve")
    told = {
        name: door(user).post(route).status_code
        for name, user in {"eve": stranger, **shop.users}.items()
        if name != "root"
    }
    assert told == {"eve": 404, "alice": 403, "carol": 403, "bob": 403, "dave": 200}
    assert door(shop.users["root"]).post(route).status_code == 409


def test_before_it_begins_the_lender_may_take_it_back(order, carol):
    loan = door(carol).post("loans", order | {"from_at": later(1)}).json()
    assert door(carol).post(f"loans/{loan['id']}/end").status_code == 200


@pytest.fixture
def ran(alice, shop):
    """Three jobs of alice: an hour of 1, 2 and 3 cards in November."""
    node = builders.node("a")
    until = datetime(2026, 11, 10, 12, tzinfo=UTC)
    for gpus in (1, 2, 3):
        job = builders.row(alice, state="COMPLETED", gpus=gpus)
        began = until - timedelta(hours=1)
        attempt = Attempt.objects.create(job=job, number=1, placed_at=began, gone_at=until)
        part = Part.objects.create(
            attempt=attempt, node=node, ranks=gpus, cpus=1, memory_mib=1, port=29400 + gpus,
            gone_at=until,
        )  # fmt: skip
        for gpu in node.gpus.all()[:gpus]:
            Lease.objects.create(
                part=part, card=gpu.card, mib=1, taken_at=began, freed_at=until, state="freed"
            )
    usage.account(until)


def test_use_is_summed_and_listed_page_by_page(ran, alice, bob):
    whole = door(alice).get("usage?month=2026-11").json()
    assert whole["sums"] == [
        {"team": "vision", "user": "alice", "gpu_model": "H100", "milli_s": 6 * 3_600_000}
    ]
    first = door(alice).get("usage?month=2026-11&limit=2").json()
    rest = door(alice).get(f"usage?month=2026-11&limit=2&cursor={first['next_cursor']}").json()
    listed = first["results"] + rest["results"]
    assert listed == whole["results"] and rest["next_cursor"] is None
    assert sum(one["milli_s"] for one in listed) == whole["sums"][0]["milli_s"]
    foreign = door(bob).get("usage?month=2026-11").json()
    assert (foreign["sums"], foreign["results"]) == ([], [])
    assert door(alice).get("usage?month=2026-10").json()["sums"] == []


@pytest.mark.parametrize("query", ["month=soon", "month=2026-13", "teem=vision", "limit=0"])
def test_a_bad_question_is_refused(query, alice):
    assert door(alice).get(f"usage?{query}").status_code == 400
