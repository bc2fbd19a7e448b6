"""In a real browser: from the sign-in to a finished job by keyboard alone, in both themes.

The server is the real one, the job is moved by what its node would report, and the node's log
is handed out at the one place where the portal reads it.
"""

import os
import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from nodes import clock, reads
from scheduling.models import Reservation
from tests import builders
from tests.needs import program
from tests.portal import story
from tests.scheduling.test_reservations import book

playwright = pytest.importorskip("playwright.sync_api") if program("chromium") else None

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.django_db(transaction=True)]

MINUTE = timedelta(minutes=1)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="module", autouse=True)
def _database_beside_the_browser() -> Iterator[None]:
    """The browser's driver runs an event loop in this thread; Django takes that for async code."""
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    yield
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program("chromium"), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(request, chromium, live_server):
    """A page in one theme that must end without an error in its console."""
    theme = getattr(request, "param", "light")
    context = chromium.new_context(color_scheme=theme, base_url=live_server.url)
    opened, said = context.new_page(), []
    opened.set_default_timeout(15_000)
    opened.on("console", lambda line: line.type == "error" and said.append(line.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    yield opened
    context.close()
    assert said == []


@pytest.fixture
def written(monkeypatch) -> bytearray:
    """What the node has in the log so far."""
    log = bytearray()

    def tail(node, run_id, *, rank, offset, limit, **_):
        at = max(len(log) + offset, 0) if offset < 0 else min(offset, len(log))
        return bytes(log[at : at + limit]), at, len(log)

    monkeypatch.setattr(reads, "tail", tail)
    return log


def sign_in(page, name: str) -> None:
    page.goto("/")
    page.wait_for_selector("#id_username:focus")
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.type(f"{name}-password-1")
    page.keyboard.press("Enter")
    page.wait_for_selector(".app h1")
    page.wait_for_load_state("load")


def tab_to(page, selector: str, most: int = 60) -> None:
    """Press Tab until the control has the focus, as a person without a mouse would."""
    for _ in range(most):
        if page.evaluate("one => document.activeElement?.matches(one)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reached by Tab")


def job_of(page) -> story.Job:
    return story.Job.objects.get(pk=int(re.search(r"/jobs/(\d+)/", page.url)[1]))


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_a_job_from_sign_in_to_finished_by_keyboard_alone(page, shop, written, tmp_path):
    builders.node("h01")
    sign_in(page, "alice")
    assert "Nothing of yours runs" in page.inner_text("h1")
    page.keyboard.press("n")
    page.wait_for_selector("#command")
    tab_to(page, "#name")
    page.keyboard.type("first")
    tab_to(page, "#command")
    page.keyboard.type("python train.py")
    tab_to(page, "#gpus")
    page.keyboard.type("2")
    tab_to(page, "#submit")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    assert "first waits for 2 GPUs" in page.inner_text("h1")

    job = story.running(job_of(page))
    written += b"epoch 1\n\x1b[32mloss 0.5\x1b[0m\n 10%\r100%\n\xff<b>bytes</b>\n"
    page.wait_for_selector("h1:has-text('runs on 2 GPUs')")
    page.wait_for_selector("#log:has-text('bytes')")
    assert page.text_content("#log") == "epoch 1\nloss 0.5\n100%\n\ufffd<b>bytes</b>\n"

    written += b"done\n"
    story.ended(job, log=bytes(written))
    page.wait_for_selector("h1:has-text('completed')")
    page.wait_for_selector("#log-line:has-text('complete')")
    assert page.text_content("#log").endswith("bytes</b>\ndone\n")
    assert page.locator("#part[hx-get]").count() == 0
    picture = tmp_path / "job.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 10_000


# htmx gives the focus once more when it settles, 20 ms after the dialog has opened.
ASKS = "dialog#dialog[open]:not(.htmx-settling)"


def test_a_cancel_asks_first_and_escape_keeps_the_job(page, alice, written):
    builders.node("h01")
    job = story.running(builders.job(alice, name="mine", gpus=4))
    sign_in(page, "alice")
    page.goto(f"/jobs/{job.pk}/")
    tab_to(page, "#act-cancel")
    page.keyboard.press("Enter")
    page.wait_for_selector(ASKS)
    assert "4 cards" in page.inner_text("#dialog")
    assert page.evaluate("document.activeElement.innerText") == "Keep it"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog#dialog:not([open])", state="attached")
    assert page.evaluate("document.activeElement.id") == "act-cancel"
    page.keyboard.press("Enter")
    page.wait_for_selector(ASKS)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('is stopping')")


def test_focus_stays_and_nothing_moves_when_the_part_is_renewed(page, alice, written):
    builders.node("h01")
    job = story.running(builders.job(alice, name="mine"))
    sign_in(page, "alice")
    page.goto("/jobs/")
    tab_to(page, f"#job-{job.pk}")
    before = page.evaluate(f"document.getElementById('job-{job.pk}').getBoundingClientRect().x")
    page.evaluate("document.getElementById('part').dataset.old = '1'")
    story.ended(job)
    page.wait_for_selector("#part:not([data-old])")
    assert page.evaluate("document.activeElement.id") == f"job-{job.pk}"
    after = page.evaluate(f"document.getElementById('job-{job.pk}').getBoundingClientRect().x")
    assert after == before


def test_an_unchanged_part_is_left_alone(page, alice):
    builders.node("h01")
    sign_in(page, "alice")
    page.goto("/nodes/")
    page.evaluate("document.getElementById('part').dataset.old = '1'")
    with page.expect_response(lambda answer: "part=1" in answer.url) as answered:
        page.evaluate("htmx.trigger('#part', 'refresh')")
    assert answered.value.status == 304
    page.wait_for_selector("#part:not(.htmx-request)")
    assert page.locator("#part[data-old]").count() == 1


def test_a_refused_form_takes_the_focus_to_what_is_wrong(chromium, live_server, alice):
    builders.node("h01")
    page = chromium.new_context(base_url=live_server.url).new_page()
    sign_in(page, "alice")
    page.goto("/jobs/new/")
    page.fill("#gpus", "many")
    page.fill("#command", "true")
    page.click("#submit")
    page.wait_for_selector("#problems:focus")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#gpus:focus, #gpus:target")
    page.context.close()


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_a_phone_shows_every_page_without_sideways_scrolling(page, alice, written):
    builders.node("h01")
    job = story.running(builders.job(alice, gpus=8, name="x" * 200, command="y" * 500))
    page.set_viewport_size({"width": 390, "height": 800})
    sign_in(page, "alice")
    for path in ("/", "/jobs/", "/jobs/new/", "/nodes/", "/nodes/h01/", f"/jobs/{job.pk}/"):
        page.goto(path)
        page.wait_for_selector(".app h1")
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(wide), path


def test_keys_lead_to_places_and_are_off_in_fields(page, alice):
    sign_in(page, "alice")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/jobs/")
    page.wait_for_load_state("load")
    page.keyboard.press("?")
    page.wait_for_selector("dialog#keys[open]")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("n")
    assert page.input_value("#find") == "n" and page.url.endswith("/jobs/")


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_a_slot_is_drawn_with_the_mouse_weighed_and_booked(page, alice, bob, root):
    for name in ("demo-a", "demo-b", "demo-c"):
        builders.node(name)
    now = clock.now()
    book(bob, now, MINUTE, 120 * MINUTE, team="speech", gpus=8)
    book(alice, now, MINUTE, 540 * MINUTE, gpus=4, title="rebuttal runs")
    book(root, now, 720 * MINUTE, 300 * MINUTE, kind="maintenance", team="", on=["demo-c"])
    sign_in(page, "alice")
    tomorrow = (now + 1440 * MINUTE).date()
    page.goto(f"/reservations/?day={tomorrow}")
    page.wait_for_load_state("networkidle")
    box = page.locator(".lane .bg").nth(1).bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.85, box["y"] + 8, steps=4)
    page.mouse.up()
    page.get_by_text("Press Book to have it").wait_for()
    page.click("#submit")
    page.get_by_text("is booked.").wait_for()
    row = Reservation.objects.latest("pk")
    assert (row.user, row.start_at.date()) == (alice, tomorrow)
    assert {one.card.gpu.node.name for one in row.cards.all()} == {"demo-b"}
    page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/reservations/", f"/reservations/{row.pk}/"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_slot_is_booked_by_keyboard_alone(page, shop):
    builders.node("demo-a")
    sign_in(page, "alice")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/reservations/")
    page.wait_for_load_state("networkidle")
    tab_to(page, "#gpus")
    page.keyboard.press("Control+a")
    page.keyboard.type("4")
    tab_to(page, "#title")
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    page.get_by_text("is booked.").wait_for()

    row = Reservation.objects.get()
    assert (row.title, row.gpus) == ("typed", 4)
