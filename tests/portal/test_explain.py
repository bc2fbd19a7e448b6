"""A job is told why, when, who is ahead and what helps; an order is told so before it is one."""

import hashlib

import pytest
from django.apps import apps
from django.db import connection, transaction

from scheduling import cycle
from scheduling.models import Job
from tests import builders
from tests.portal.api_door import door

pytestmark = pytest.mark.django_db


@pytest.fixture
def busy(shop):
    """Eight of twelve cards are alice's for an hour; bob's job for eight has room kept for it."""
    builders.node("a")
    builders.node("b", cards=4)
    builders.job(shop.users["alice"], gpus=8, time_limit_s=3600)
    cycle.serve()
    head = builders.job(shop.users["bob"], team="speech", gpus=8, name="secret plan")
    cycle.serve()
    return head


def hashed() -> str:
    """Every row of every table of ours."""
    digest = hashlib.sha256()
    with connection.cursor() as cursor:
        for model in sorted(apps.get_models(), key=lambda one: one._meta.db_table):
            table = model._meta.db_table
            cursor.execute(f'SELECT t::text FROM "{table}" AS t ORDER BY 1')  # noqa: S608
            digest.update(repr((table, cursor.fetchall())).encode())
    return digest.hexdigest()


def test_a_waiting_job_is_told_when_it_starts_and_who_is_ahead_by_number_and_team(
    alice, busy, shop
):
    mine = builders.job(alice, gpus=8)
    cycle.serve()

    told = door(alice).get(f"jobs/{mine.pk}/explain").json()

    assert told["starts_now"] is False
    assert told["position"] == 2
    assert told["start_from"] and told["start_by"] and told["start_unsure"] == ""
    assert told["ahead"] == {
        "count": 1,
        "jobs": [{"id": busy.pk, "team": "speech", "why": "earlier"}],
        "teams": [{"team": "speech", "count": 1}],
    }
    assert {"field": "gpus", "value": 4} in told["ways"]
    assert "secret" not in str(told) and "bob" not in str(told)


def test_every_way_that_is_told_starts_the_job_in_the_next_cycle(alice, busy):
    mine = builders.job(alice, gpus=8)
    cycle.serve()
    ways = door(alice).get(f"jobs/{mine.pk}/explain").json()["ways"]
    assert ways

    order = {"team": "vision", "command": "true", "gpus": 8}
    for way in ways:
        with transaction.atomic():
            changed = door(alice).post("jobs", order | {way["field"]: way["value"]}).json()
            cycle.serve()
            assert Job.objects.get(pk=changed["id"]).state == "PLACED", way
            transaction.set_rollback(True)


def test_an_order_that_would_start_is_told_where_and_what_it_costs(alice, busy):
    order = {"team": "vision", "command": "true", "gpus": 4, "time_limit": "2h"}

    told = door(alice).post("jobs/preview", order).json()

    assert (told["fits"], told["starts_now"]) == (True, True)
    assert told["nodes"] == [{"node": "b", "gpus": 4}]
    assert told["cost"] == {"gpus": 4, "time_limit_s": 7200, "gpu_hours": 8.0}
    assert told["reasons"] == []


def test_an_order_that_would_wait_is_told_why_until_when_and_what_helps(alice, busy):
    order = {"team": "vision", "command": "true", "gpus": 8}

    told = door(alice).post("jobs/preview", order).json()

    assert (told["fits"], told["starts_now"], told["position"]) == (True, False, 2)
    assert told["reasons"][0]["code"] == "Resources"
    assert told["start_by"] and {"field": "gpus", "value": 4} in told["ways"]
    assert told["ahead"]["count"] == 1


def test_an_order_that_never_fits_is_told_so_and_an_order_that_is_none_is_refused(alice, busy):
    never = door(alice).post("jobs/preview", {"team": "vision", "command": "x", "gpus": 9})
    wrong = door(alice).post("jobs/preview", {"team": "vision", "command": "x", "gpus": 0})
    foreign = door(alice).post("jobs/preview", {"team": "speech", "command": "x", "gpus": 1})

    assert (never.status_code, never.json()["fits"]) == (200, False)
    assert never.json()["reasons"][0]["code"] == "NeverFits"
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_order")
    assert foreign.status_code == 404


def test_asking_writes_nothing(alice, busy, client):
    mine = builders.job(alice, gpus=8)
    cycle.serve()
    program = door(alice)
    program.get("me")
    client.force_login(alice)
    before = hashed()

    for gpus in (1, 8, 9):
        order = {"team": "vision", "command": "true", "gpus": gpus}
        assert program.post("jobs/preview", order).status_code == 200
        form = {"team": "vision", "gpus": str(gpus), "nodes": "1", "priority": "normal"}
        assert client.post("/jobs/preview/", form).status_code == 200
    assert program.get(f"jobs/{mine.pk}/explain").status_code == 200
    assert client.get(f"/jobs/{mine.pk}/sooner").status_code == 200

    assert hashed() == before


def test_the_page_of_a_waiting_job_tells_when_it_starts_who_is_ahead_and_what_helps(
    alice, busy, client
):
    mine = builders.job(alice, gpus=8)
    cycle.serve()
    client.force_login(alice)

    page = client.get(f"/jobs/{mine.pk}/").content.decode()
    beside = client.get(f"/jobs/{mine.pk}/sooner").content.decode()

    assert "as the queue stands" in page
    assert f"#{busy.pk}" in beside and "speech" in beside and "submitted earlier" in beside
    assert f"/jobs/{busy.pk}/" not in beside, "a foreign job is not linked"
    assert "4 instead of 8 GPUs" in beside
    assert "secret" not in page + beside and "bob" not in beside


def test_the_form_tells_what_would_happen_as_it_is_filled_in(alice, busy, client):
    client.force_login(alice)
    form = {"team": "vision", "nodes": "1", "priority": "normal", "requeue": "on"}

    def preview(**more):
        return client.post("/jobs/preview/", form | more).content.decode()

    assert "Starts now" in preview(gpus="2")
    assert "Waits." in preview(gpus="8")
    assert "4 instead of 8 GPUs" in preview(gpus="8")
    assert "Never fits." in preview(gpus="9")
    assert "0 is outside" in preview(gpus="0")
    assert client.get("/jobs/preview/").status_code == 405
    assert 'hx-post="/jobs/preview/"' in client.get("/jobs/new/").content.decode()
