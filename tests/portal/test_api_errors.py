"""Every refusal is one problem document, whatever was sent and whatever broke."""

import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.errors import NodeRefused, NodeUnreachable
from nodes.reads import TooManyReaders
from portal.api import jobs
from scheduling import logs
from scheduling.models import Job
from scheduling.order_fields import FIELDS
from scheduling.orders import NOT_YET
from tests import builders
from tests.portal.api_door import door

pytestmark = pytest.mark.django_db

GOOD = {"team": "vision", "command": "true", "gpus": 1}
SHAPE = {"type", "title", "status", "code", "detail", "next_step", "fields"}


def refused(response, status, code):
    """The document, after checking that it is one."""
    assert response["Content-Type"] == "application/problem+json", response.content[:300]
    told = response.json()
    assert set(told) == SHAPE
    assert (response.status_code, told["status"], told["code"]) == (status, status, code), told
    assert told["detail"] and "Traceback" not in told["detail"]
    assert told["next_step"] or code == "never_fits"  # its cause ends with what to ask for
    return told


@pytest.mark.parametrize(
    ("method", "route", "status", "code"),
    [
        ("GET", "nothing", 404, "not_found"),
        ("POST", "jobs/", 404, "not_found"),
        ("GET", "jobs/abc", 404, "not_found"),
        ("GET", "jobs/7", 404, "not_found"),
        ("GET", "jobs/" + "9" * 25, 404, "not_found"),
        ("GET", "jobs/" + "9" * 5000, 404, "not_found"),
        ("POST", "jobs/" + "9" * 25 + "/cancel", 404, "not_found"),
        ("GET", "jobs/" + "9" * 25 + "/log", 404, "not_found"),
        ("PUT", "jobs", 405, "method_not_allowed"),
        ("OPTIONS", "jobs", 405, "method_not_allowed"),
        ("DELETE", "jobs/1", 405, "method_not_allowed"),
        ("GET", "jobs?team=%00", 400, "invalid_request"),
        ("GET", "jobs?team=%ff%fe", 200, ""),
        ("GET", "jobs?cursor=" + "9" * 30, 400, "invalid_request"),
        ("GET", "jobs?cursor=9223372036854775808", 400, "invalid_request"),
        ("GET", "jobs?cursor=\u0663", 400, "invalid_request"),
        ("GET", "jobs?limit=0", 400, "invalid_request"),
        ("GET", "jobs?state=RUNING", 400, "invalid_request"),
        ("GET", "jobs?mine=perhaps", 400, "invalid_request"),
        ("GET", "tokens/%00", 404, "not_found"),
        ("DELETE", "tokens/%00", 404, "not_found"),
        ("DELETE", "tokens/gw_0123456789ab", 404, "not_found"),
    ],
)
def test_an_address_that_is_wrong_is_told_so(alice, method, route, status, code):
    answer = door(alice).any(method, route)

    if status == 200:
        assert answer.json()["results"] == []
    else:
        refused(answer, status, code)


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "invalid_order"),
        (b"{", 400, "invalid_json"),
        (b"[]", 400, "invalid_request"),
        (b'"text"', 400, "invalid_request"),
        (b"null", 400, "invalid_request"),
        (b"7", 400, "invalid_request"),
        (b'{"team": "\xff\xfe"}', 400, "invalid_json"),
        (b"[" * 100_000, 400, "invalid_json"),
        (b'{"env":' * 50_000, 400, "invalid_json"),
        (b'{"gpus": 1, "gpus": 2}', 400, "invalid_json"),
        (b'{"gpus": NaN}', 400, "invalid_json"),
        (b'{"gpus": -Infinity}', 400, "invalid_json"),
        (b'{"gpus": 1e999}', 400, "invalid_json"),
        (b'{"gpus": ' + b"9" * 400 + b"}", 400, "invalid_json"),
        (b'{"gpus": ' + b"9" * 25 + b"}", 400, "invalid_order"),
        (b'{"\\ud800": 1}', 400, "invalid_order"),
        (b'{"command": "\\u0000", "team": "vision", "gpus": 1}', 400, "invalid_order"),
        (b'{"command": "x", "team": "\\ud800", "gpus": 1}', 400, "invalid_order"),
        (b'{"comand": "x", "team": "vision", "gpus": 1}', 400, "invalid_order"),
        (b'{"command": "x", "team": "vision", "gpus": 1, "image": "a"}', 400, "invalid_order"),
        (b'{"command": "x", "team": "nobody", "gpus": 1}', 404, "not_found"),
        (b'{"command": "x", "team": "vision", "gpus": 1, "pool": "p"}', 400, "invalid_order"),
        (b'{"command": "x", "team": "vision", "gpus": 99}', 409, "never_fits"),
        (b" " * (4 * 1024 * 1024 + 1), 413, "too_large"),
    ],
)
def test_a_body_that_is_no_order_is_refused_with_its_cause(alice, raw, status, code):
    builders.node("n1")

    refused(door(alice).post("jobs", raw=raw), status, code)

    assert not Job.objects.exists()


def test_a_misspelt_field_is_named_with_the_one_that_was_meant(alice):
    told = refused(door(alice).post("jobs", {**GOOD, "comand": "x"}), 400, "invalid_order")

    assert "Did you mean command?" in told["fields"]["comand"]


def test_a_field_that_is_planned_is_refused_as_not_built_yet(alice):
    told = refused(door(alice).post("jobs", {**GOOD, "image": "x"}), 400, "invalid_order")

    assert "not built yet" in told["fields"]["image"]


def test_a_command_of_256_kib_is_taken_and_one_byte_more_is_not(alice):
    builders.node("n1")
    limit = 256 * 1024

    assert door(alice).post("jobs", {**GOOD, "command": "x" * limit}).status_code == 201
    told = door(alice).post("jobs", {**GOOD, "command": "x" * (limit + 1)})
    assert str(limit + 1) in refused(told, 400, "invalid_order")["fields"]["command"]


def test_only_json_is_read(alice):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = door(alice).post("jobs", raw=b"team=vision", content_type=kind)
        refused(answer, 415, "unsupported_media_type")


def test_without_a_token_the_answer_says_how_to_get_one(db):
    answer = door().get("jobs")

    assert "/api/v1/tokens" in refused(answer, 401, "not_signed_in")["next_step"]
    assert answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("token", ["gw_00", "x", "gw_" + "0" * 64, "gw_\xff\xe9", "a b", ""])
def test_what_is_no_token_opens_nothing(db, token):
    headers = {"Authorization": f"Bearer {token}"}

    refused(door().get("jobs", headers=headers), 401, "wrong_credentials")


def test_a_browser_session_needs_its_csrf_token_to_change_anything(alice):
    browser = door(enforce_csrf_checks=True)
    browser.client.force_login(alice)
    builders.node("n1")

    assert browser.get("jobs").status_code == 200
    told = refused(browser.post("jobs", GOOD), 403, "not_allowed")
    assert "X-CSRFToken" in told["next_step"]
    assert not Job.objects.exists()


def test_a_failure_nobody_foresaw_shows_a_number_that_the_log_has_too(alice, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(jobs.queries, "jobs", broken)
    with caplog.at_level(logging.ERROR):
        told = refused(door(alice).get("jobs"), 500, "internal_error")

    number = told["detail"].split()[-1].rstrip(".")
    assert "secret" not in str(told)
    assert number in caplog.text and "secret detail" in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (TooManyReaders("Four are read.", next_step="Wait."), 503, "1"),
        (NodeUnreachable("n1 is silent.", next_step="Wait."), 503, "2"),
        (NodeRefused("No such run.", next_step="Look.", code="no_run", kind="request"), 502, None),
    ],
)
def test_a_log_that_cannot_be_read_now_says_when_to_come_again(
    alice, monkeypatch, error, status, retry
):
    builders.node("n1")
    job = builders.job(alice)

    def tail(*args, **kwargs):
        raise error

    monkeypatch.setattr(logs, "read", tail)
    answer = door(alice).get(f"jobs/{job.pk}/log")

    refused(answer, status, error.code)
    assert answer.get("Retry-After") == retry


texts = st.text(max_size=20) | st.sampled_from(["vision", "true", "48h", "per_gpu", "\0", "\ud800"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
orders = st.dictionaries(st.sampled_from([*FIELDS, *NOT_YET, "sate", "\0"]), values, max_size=8)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=orders | values, good=st.booleans())
def test_no_json_at_all_makes_the_portal_fail(alice, body, good):
    sent = {**GOOD, **body} if good and isinstance(body, dict) else body

    answer = door(alice).post("jobs", sent)

    assert answer.status_code in (201, 400, 404, 409), answer.content
    if answer.status_code != 201:
        assert set(answer.json()) == SHAPE


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(raw=st.binary(max_size=200))
def test_no_bytes_at_all_make_the_portal_fail(alice, raw):
    answer = door(alice).post("jobs", raw=raw)

    assert answer.status_code == 400, answer.content
    assert set(answer.json()) == SHAPE
