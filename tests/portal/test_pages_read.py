"""Pages answer, parts are pieces of them, and what has not changed is not sent again."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from nodes import clock, reads
from portal.views import health
from tests import builders
from tests.portal import story

pytestmark = pytest.mark.django_db

PAGES = ("/", "/jobs/", "/jobs/new/", "/nodes/", "/nodes/h01/")


@pytest.fixture
def floor(shop):
    return builders.node("h01"), builders.node("h02", cards=4, model="A100")


@pytest.fixture
def job(alice, floor):
    return story.running(builders.job(alice, gpus=2, gpu_model="H100", name="vit-l"))


@pytest.fixture
def still(job, monkeypatch) -> None:
    """Time stands still: pages tell seconds, and a slow machine takes some between two answers."""
    at = clock.now()
    monkeypatch.setattr(clock, "now", lambda: at)


def text_of(response) -> str:
    return response.content.decode()


@pytest.mark.parametrize("path", [*PAGES, "/jobs/{job}/"])
@pytest.mark.usefixtures("still")
def test_the_part_is_a_piece_of_its_page(path, job, alice, client_of):
    client = client_of(alice)
    path = path.format(job=job.pk)
    page, part = client.get(path), client.get(path, {"part": "1"})
    assert page.status_code == part.status_code == 200
    assert "<html" not in text_of(part)
    assert text_of(part).split("#}")[-1].strip() in text_of(page)


@pytest.mark.parametrize("path", [*PAGES, "/jobs/{job}/"])
@pytest.mark.usefixtures("still")
def test_an_unchanged_part_is_answered_304_and_a_changed_one_in_full(path, job, alice, client_of):
    client = client_of(alice)
    path = path.format(job=job.pk)
    first = client.get(path, {"part": "1"})
    same = client.get(path, {"part": "1"}, headers={"If-None-Match": first["ETag"]})
    assert same.status_code == 304 and not same.content
    assert same["ETag"] == first["ETag"] and "no-cache" in same["Cache-Control"]
    builders.node("h03")
    story.running(builders.job(alice, gpus=3))
    story.ended(job)
    changed = client.get(path, {"part": "1"}, headers={"If-None-Match": first["ETag"]})
    assert changed.status_code == 200 and changed["ETag"] != first["ETag"]


def test_a_part_sends_back_the_version_that_its_page_was_drawn_with(job, alice, client_of):
    page = text_of(client_of(alice).get(f"/jobs/{job.pk}/"))
    etag = client_of(alice).get(f"/jobs/{job.pk}/", {"part": "1"})["ETag"]
    assert f'hx-headers=\'{{"If-None-Match": "\\{etag[:-1]}\\""}}\'' in page


def test_the_page_of_an_ended_job_asks_no_more(job, alice, client_of):
    client = client_of(alice)
    assert 'hx-trigger="every 5s' in text_of(client.get(f"/jobs/{job.pk}/"))
    story.ended(job)
    for wanted in ({}, {"part": "1"}):
        assert "every 5s" not in text_of(client.get(f"/jobs/{job.pk}/", wanted))


@pytest.mark.parametrize("path", [*PAGES, "/jobs/{job}/", "/jobs/?whose=mine&state=live"])
def test_a_page_costs_the_same_few_queries_however_much_it_shows(
    path, job, alice, client_of, django_assert_max_num_queries
):
    for _ in range(3):
        builders.job(alice, name="more")
        builders.node(f"n{_}")
    story.placed(job)
    client = client_of(alice)
    with django_assert_max_num_queries(19 if path == "/" else 15):
        client.get(path.format(job=job.pk))


def test_many_rows_cost_no_more_queries_than_few(job, alice, root, client_of):
    client = client_of(root)
    for path in ("/", "/jobs/", "/nodes/"):
        with CaptureQueriesContext(
            connection,
        ) as few:
            client.get(path)
        for place in range(3):
            builders.node(f"more-{path.strip('/')}-{place}")
        story.placed(builders.job(alice, gpus=1))
        with CaptureQueriesContext(connection) as many:
            client.get(path)
        assert len(many) == len(few), path


def test_the_heading_says_how_my_jobs_are(job, alice, client_of):
    builders.job(alice, gpus=8, gpu_model="H100")
    page = text_of(client_of(alice).get("/"))
    assert "<h1><b>1 job runs</b> on 2 GPUs, 1 waits.</h1>" in page


def test_a_waiting_job_says_why_with_numbers(job, alice, client_of):
    waiting = story.placed(builders.job(alice, gpus=8, gpu_model="H100", name="big"))
    page = text_of(client_of(alice).get(f"/jobs/{waiting.pk}/"))
    assert "Why is it waiting?" in page
    assert "8 H100" in page and "6" in page


@pytest.mark.parametrize(
    ("exit_code", "sentence"),
    [(0, "completed</b> after 1 min on 2 GPUs."), (3, "failed with exit code 3</b> after 1 min")],
)
def test_an_ended_job_says_how_it_ended(exit_code, sentence, job, alice, client_of):
    story.ended(job, exit_code=exit_code)
    assert sentence in text_of(client_of(alice).get(f"/jobs/{job.pk}/"))


def test_a_card_held_by_another_team_names_the_team_and_nothing_else(job, bob, client_of):
    for path in ("/", "/nodes/", "/nodes/h01/", "/nodes/h02/"):
        page = text_of(client_of(bob).get(path))
        assert "vit-l" not in page and "alice" not in page
        assert f"/jobs/{job.pk}/" not in page
    assert "vision" in text_of(client_of(bob).get("/nodes/"))


def test_older_jobs_are_a_page_away_and_every_job_is_on_exactly_one(alice, floor, client_of):
    wanted = {builders.row(alice, state="CANCELLED", name=f"n{at}").pk for at in range(120)}
    client, path, seen = client_of(alice), "/jobs/", []
    while path:
        page = text_of(client.get(path))
        seen += [int(pk) for pk in re.findall(r'id="job-(\d+)"', page)]
        older = re.search(r'id="older" href="([^"]+)"', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert sorted(seen) == sorted(wanted)


@pytest.mark.parametrize(("state", "shown"), [("live", True), ("waiting", False), ("ended", False)])
def test_a_filter_shows_what_it_names(state, shown, job, alice, client_of):
    page = text_of(client_of(alice).get("/jobs/", {"state": state}))
    assert (f"/jobs/{job.pk}/" in page) is shown


def test_an_empty_list_says_what_to_do(alice, client_of):
    client = client_of(alice)
    assert "Submit the first one." in text_of(client.get("/jobs/"))
    assert "See all jobs" in text_of(client.get("/jobs/", {"state": "ended"}))
    assert "Submit your first one." in text_of(client.get("/"))
    assert "No node is enrolled yet." in text_of(client.get("/nodes/"))


def test_find_leads_to_the_job_or_the_node(job, alice, client_of):
    client = client_of(alice)
    assert client.get("/find/", {"q": f"#{job.pk}"})["Location"] == f"/jobs/{job.pk}/"
    assert client.get("/find/", {"q": "h01"})["Location"] == "/nodes/h01/"
    nothing = client.get("/find/", {"q": "<script>"})
    assert nothing.status_code == 400 and b"<script>" not in nothing.content


@pytest.mark.parametrize(
    "path",
    [
        "/find/?q=%00", "/find/?q=a%00", "/jobs/?whose=%00", "/jobs/new/?from=%00", "/?x=%00",
        "/admin/autocomplete/?term=%00&app_label=scheduling&model_name=member&field_name=user",
    ],
)  # fmt: skip
def test_an_address_with_a_nul_is_refused(path, floor, carol, client_of):
    assert client_of(carol).get(path).status_code == 400


@pytest.mark.parametrize("number", ["-5", "-0", "1.5", "\u0661", "9" * 30])
def test_what_is_no_number_of_a_job_leads_to_none(number, floor, alice, client_of):
    client = client_of(alice)
    assert client.get("/find/", {"q": number}).status_code in (302, 400)
    assert client.get("/jobs/new/", {"from": number}).status_code == 200


def test_a_cookie_with_a_nul_is_no_session(client, db):
    client.cookies["sessionid"] = "abcdefgh\0ijklmnop"
    assert client.get("/")["Location"].startswith("/signin/")


def test_the_whole_log_ends_although_the_job_writes_on(job, alice, client_of, monkeypatch):
    size = 100_000

    def tail(node, run_id, *, rank, offset, limit, fresh=False):
        """Grows faster than it is read."""
        nonlocal size
        at = max(size + offset, 0) if offset < 0 else offset
        size += 2 * limit
        assert size < 10_000_000, "read on for ever"
        return b"x" * limit, at, size

    monkeypatch.setattr(reads, "tail", tail)
    answer = client_of(alice).get(f"/jobs/{job.pk}/log", {"raw": "1"})
    assert len(answer.content) >= 100_000 and answer["X-Offset"] == "0"


def test_nothing_on_any_page_is_inline_or_from_elsewhere(job, alice, root, client_of):
    for user in (alice, root):
        for path in [*PAGES, f"/jobs/{job.pk}/", f"/jobs/{job.pk}/cancel/", "/nodes/h01/"]:
            response = client_of(user).get(path)
            page = text_of(response)
            assert "default-src 'self'" in response["Content-Security-Policy"]
            assert not re.search(r"<script(?![^>]*\bsrc=)", page), path
            assert not re.search(r"\sstyle=|\son\w+=|javascript:|//[a-z0-9.-]+\.[a-z]{2,}/", page)


def test_the_theme_is_a_cookie_and_only_the_two_words_are_taken(alice, client_of):
    client = client_of(alice)
    client.post("/theme/", {"theme": "dark", "next": "/nodes/"})
    assert '<html lang="en" data-theme="dark">' in text_of(client.get("/"))
    client.cookies["theme"] = '"><script>'
    assert '<html lang="en">' in text_of(client.get("/"))
    away = client.post("/theme/", {"theme": "light", "next": "//elsewhere.example/"})
    assert away["Location"] == "/"


def test_the_health_pages_answer_without_a_session(client, db):
    assert client.get("/healthz").json() == {"up": True}
    ready = client.get("/readyz")
    assert ready.status_code == 200 and ready.json()["checks"]["migrations"] == "ok"


def test_not_ready_says_which_part_is_not(client, db, monkeypatch):
    def gone() -> str:
        raise ConnectionRefusedError("127.0.0.1:6379")

    monkeypatch.setitem(health.CHECKS, "redis", gone)
    answer = client.get(reverse("readyz"))
    assert answer.status_code == 503
    assert answer.json()["checks"]["redis"] == "not reachable (ConnectionRefusedError)"
