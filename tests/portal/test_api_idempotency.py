"""Asked twice under one key is done once: in turn, at the same time, and after a failure."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Event

import pytest
from django.db import connection, connections
from django.urls import get_resolver
from knox.models import AuthToken

from nodes import clock
from portal.api import idempotency, jobs
from portal.models import IdempotencyKey
from scheduling.models import Job, Loan
from tests import builders
from tests.portal.api_door import door
from tests.portal.test_api_errors import refused

ORDER = {"team": "vision", "command": "true", "gpus": 1}


@pytest.fixture
def node(shop):
    return builders.node("n1")


@pytest.mark.django_db
def test_the_same_request_under_the_same_key_makes_one_job_and_one_answer(alice, node):
    first = door(alice).post("jobs", ORDER, key="k1")
    again = door(alice).post("jobs", ORDER, key="k1")

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content and again["Location"] == first["Location"]
    assert again["Idempotent-Replayed"] == "true" and "Idempotent-Replayed" not in first
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_another_body_under_the_same_key_is_refused(alice, node):
    door(alice).post("jobs", ORDER, key="k1")

    other = door(alice).post("jobs", {**ORDER, "gpus": 2}, key="k1")

    refused(other, 422, "idempotency_key_reused")
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_the_same_key_of_another_person_is_another_key(alice, carol, node):
    door(alice).post("jobs", ORDER, key="k1")

    assert door(carol).post("jobs", ORDER, key="k1").status_code == 201
    assert Job.objects.count() == 2


@pytest.mark.django_db
def test_a_refusal_is_not_kept_so_the_key_may_be_tried_again(alice, node):
    refused(door(alice).post("jobs", {**ORDER, "gpus": 99}, key="k1"), 409, "never_fits")

    assert door(alice).post("jobs", ORDER, key="k1").status_code == 201


@pytest.mark.django_db
def test_every_post_honours_the_key(alice, carol, dave, node):
    job = builders.job(alice)
    later = (clock.now() + timedelta(days=2)).isoformat()
    loan = {"lender": "vision", "borrower": "speech", "gpus": 1, "until_at": later}
    booking = {"team": "vision", "gpus": 1, "duration": "1h"}
    asked = [
        (alice, "jobs", ORDER),
        (alice, "tokens", {"name": "ci"}),
        (alice, f"jobs/{job.pk}/hold", None),
        (alice, f"jobs/{job.pk}/release", None),
        (alice, f"jobs/{job.pk}/cancel", None),
        (alice, "reservations", booking),
        (carol, "loans", loan),
        (dave, "loans/{loan}/end", None),
    ]

    for who, route, body in asked:
        route = route.format(loan=Loan.objects.values_list("pk", flat=True).first())
        first = door(who).post(route, body, key=route)
        again = door(who).post(route, body, key=route)
        assert again.get("Idempotent-Replayed") == "true", (route, first.content)
        assert (again.status_code, again.content) == (first.status_code, first.content)
    # What only answers needs no key.
    writing = len(asked) + len(("jobs/preview", "estimates"))
    assert writing == sum(_takes_post(pattern) for pattern in _routes())


@pytest.mark.django_db
def test_a_key_is_visible_ascii_of_at_most_200_characters(alice, node):
    for key in ("", "a b", "x" * 201, "\u00e9"):
        refused(door(alice).post("jobs", ORDER, key=key), 400, "invalid_request")
    assert door(alice).post("jobs", ORDER, key="x" * 200).status_code == 201


@pytest.mark.django_db
def test_after_a_day_a_key_is_forgotten(alice, node):
    door(alice).post("jobs", ORDER, key="k1")
    door(alice).post("jobs", ORDER, key="k2")
    yesterday = clock.now() - timedelta(hours=24, seconds=1)
    IdempotencyKey.objects.filter(key="k1").update(made_at=yesterday)

    assert "Idempotent-Replayed" not in door(alice).post("jobs", ORDER, key="k1")
    assert Job.objects.count() == 3
    IdempotencyKey.objects.filter(key="k1").update(made_at=yesterday)
    assert idempotency.prune() == 1
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["k2"]


@pytest.mark.django_db
def test_a_kept_answer_cannot_be_read_in_the_database(alice):
    made = door(alice).post("tokens", {"name": "ci"}, key="k1").json()["token"]

    assert made.encode() not in bytes(IdempotencyKey.objects.get().body)
    assert AuthToken.objects.filter(token_key=made[:15]).exists()


@pytest.mark.django_db(transaction=True)
def test_two_at_once_make_one_job_and_both_get_its_answer(alice, node):
    start = Barrier(2)

    def send(program):
        start.wait(10)
        try:
            return program.post("jobs", ORDER, key="k1")
        finally:
            connections.close_all()

    programs = [door(alice), door(alice)]
    for _ in range(10):
        IdempotencyKey.objects.all().delete()
        before = Job.objects.count()
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(send, programs)
        assert (first.status_code, first.content) == (201, second.content)
        assert Job.objects.count() == before + 1


@pytest.mark.django_db(transaction=True)
def test_a_duplicate_does_not_wait_for_ever_for_the_first(alice, node, monkeypatch):
    monkeypatch.setattr(idempotency, "WAIT_MS", 100)
    inside, go_on = Event(), Event()
    submit = jobs.services.submit

    def slow(*args, **kwargs):
        inside.set()
        assert go_on.wait(20)
        return submit(*args, **kwargs)

    def send():
        try:
            return first.post("jobs", ORDER, key="k1")
        finally:
            connections.close_all()

    first, second = door(alice), door(alice)
    monkeypatch.setattr(jobs.services, "submit", slow)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(send)
        assert inside.wait(20)
        refused(second.post("jobs", ORDER, key="k1"), 409, "idempotency_in_progress")
        go_on.set()
        assert running.result(20).status_code == 201

    assert second.post("jobs", ORDER, key="k1")["Idempotent-Replayed"] == "true"
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_what_broke_half_way_leaves_neither_job_nor_key(alice, node, monkeypatch):
    submit = jobs.services.submit

    def breaks_after(*args, **kwargs):
        submit(*args, **kwargs)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    monkeypatch.setattr(jobs.services, "submit", breaks_after)
    refused(door(alice).post("jobs", ORDER, key="k1"), 500, "internal_error")
    assert (Job.objects.count(), IdempotencyKey.objects.count()) == (0, 0)

    monkeypatch.setattr(jobs.services, "submit", submit)
    assert door(alice).post("jobs", ORDER, key="k1").status_code == 201


def _routes():
    api = next(p for p in get_resolver().url_patterns if str(p.pattern) == "api/v1/")
    return [pattern for pattern in api.url_patterns if str(pattern.pattern)]


def _takes_post(pattern) -> bool:
    return hasattr(pattern.callback.cls, "post")
