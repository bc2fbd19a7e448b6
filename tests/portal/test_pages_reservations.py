"""The calendar: slots are seen, booked, changed, given back and subscribed to."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from nodes import clock
from portal import zones
from scheduling.models import Card, Reservation, ReservationCard
from tests import builders
from tests.scheduling.test_reservations import book

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def node(shop):
    return builders.node("n1")


def soon(hours: float = 2) -> str:
    return (clock.now() + hours * HOUR).strftime("%Y-%m-%dT%H:00")


def form(**more) -> dict:
    return {"team": "vision", "gpus": "2", "nodes": "1", "start": soon(), "end": soon(3)} | more


def test_the_calendar_shows_all_blocks_and_the_titles_of_ones_own(node, client_of, alice, bob):
    at = clock.now()
    book(alice, at, timedelta(minutes=1), gpus=2, title="demo day")
    book(bob, at, timedelta(minutes=1), gpus=2, team="speech", title="secret plan")

    page = client_of(alice).get("/reservations/?zoom=week").content.decode()
    assert "demo day" in page and "secret plan" not in page
    assert re.search(r"<title>speech, .* 2 GPUs</title>", page)
    assert "Times are in UTC." in page


def test_a_slot_is_booked_by_the_plain_form(node, client_of, alice):
    browser = client_of(alice)
    answer = browser.post("/reservations/", form(title="by keyboard"), follow=True)

    row = Reservation.objects.get()
    assert answer.redirect_chain[-1][0] == f"/reservations/{row.pk}/"
    assert (row.title, row.gpus, row.user) == ("by keyboard", 2, alice)
    assert "export CUDA_VISIBLE_DEVICES=GPU-n1-0,GPU-n1-1" in answer.content.decode()


def test_a_refusal_keeps_what_was_typed_and_says_the_next_slot(node, client_of, alice, bob):
    book(bob, clock.now(), timedelta(), 9 * HOUR, gpus=8, team="speech")

    answer = client_of(alice).post("/reservations/", form(gpus="8", title="kept text"))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Next free for 8 × GPU on one node" in page and "kept text" in page
    assert Reservation.objects.count() == 1


def test_the_viewers_zone_counts_and_an_hour_that_is_none_or_two_is_not_guessed(
    node, client_of, alice
):
    browser = client_of(alice)
    browser.cookies["tz"] = "Europe/Berlin"
    year = clock.now().year + 1
    march = max(d for d in range(25, 32) if datetime(year, 3, d, tzinfo=UTC).weekday() == 6)
    october = max(d for d in range(25, 32) if datetime(year, 10, d, tzinfo=UTC).weekday() == 6)

    none = form(start=f"{year}-03-{march}T02:30", end=f"{year}-03-{march}T05:00")
    assert "02:30 does not exist" in browser.post("/reservations/", none).content.decode()
    two = form(start=f"{year}-10-{october}T02:30", end=f"{year}-10-{october}T05:00")
    page = browser.post("/reservations/", two).content.decode()
    assert "02:30 happens twice" in page and 'name="fold"' in page
    first = zones.from_wall(two["start"], BERLIN, "0")
    second = zones.from_wall(two["start"], BERLIN, "1")
    assert datetime.fromisoformat(second) - datetime.fromisoformat(first) == HOUR
    assert "Europe/Berlin, UTC+" in page
    far = form(start="0001-01-01T00:00", end="9999-12-31T23:59")
    assert (
        "The year 1 is outside 2000 to 9000" in browser.post("/reservations/", far).content.decode()
    )


def test_days_on_which_clocks_change_are_as_long_as_they_are(node, client_of, alice):
    browser = client_of(alice)
    browser.cookies["tz"] = "Europe/Berlin"
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-12-01", 24)):
        page = browser.get(f"/reservations/?day={day}").content.decode()
        assert f'data-seconds="{hours * 3600}"' in page
    for day in ("0001-01-01", "9999-12-31", "never", "2026-02-30"):
        assert browser.get(f"/reservations/?day={day}&zoom=eon").status_code == 200
    browser.cookies["tz"] = "../../etc/passwd"
    assert "Times are in UTC" in browser.get("/reservations/").content.decode()


def test_a_slot_that_is_drawn_is_weighed_and_nothing_is_booked(node, client_of, alice, bob):
    book(bob, clock.now(), timedelta(), 9 * HOUR, gpus=7, team="speech")
    browser = client_of(alice)

    assert "free." in browser.get("/reservations/check/", form(gpus="1")).content.decode()
    said = browser.get("/reservations/check/", form(gpus="2", on="n1")).content.decode()
    assert 'class="bad"' in said and "Next free" in said
    assert "<b>" not in browser.get("/reservations/check/", form(on="<b>")).content.decode()[15:]
    assert Reservation.objects.count() == 1


def test_one_reservation_is_changed_and_ended_on_its_page(node, client_of, alice, bob, carol):
    row = book(alice, clock.now(), HOUR, gpus=2)
    browser, path = client_of(alice), f"/reservations/{row.pk}/"

    assert client_of(bob).get(path).status_code == 404
    changed = {"title": "longer", "gpus": "4", "start": "", "end": soon(6)}
    assert browser.post(path, changed).status_code == 302
    row.refresh_from_db()
    assert (row.title, row.gpus) == ("longer", 4)
    wrong = browser.post(path, changed | {"gpus": "99"})
    assert wrong.status_code == 422 and "Nothing was changed" in wrong.content.decode()
    assert client_of(carol).post(f"{path}end/").status_code == 302
    row.refresh_from_db()
    assert row.state == "cancelled"
    assert "is over" in browser.post(f"{path}end/", follow=True).content.decode()


def test_a_slot_that_runs_is_extended_without_touching_its_start(node, client_of, alice):
    row = book(alice, clock.now(), timedelta(), gpus=2)
    browser = client_of(alice)
    shown = browser.get(f"/reservations/{row.pk}/").content.decode()
    start = re.search(r'name="start" value="([^"]+)"', shown).group(1)

    same = {"title": "", "gpus": "2", "start": start, "end": soon(4)}
    assert browser.post(f"/reservations/{row.pk}/", same).status_code == 302
    row.refresh_from_db()
    assert row.end_at > clock.now() + 2 * HOUR
    shown = browser.get(f"/reservations/{row.pk}/").content.decode()
    longer = re.search(r'name="end" value="([^"]+)"><button', shown).group(1)
    assert browser.post(f"/reservations/{row.pk}/", {"end": longer}).status_code == 302
    assert Reservation.objects.get(pk=row.pk).end_at == row.end_at + HOUR


def test_only_operators_book_maintenance(node, client_of, alice, root):
    asked = form(team="", kind="maintenance", on="n1", gpus="")

    assert client_of(alice).post("/reservations/", asked).status_code in (403, 422)
    assert not Reservation.objects.exists()
    assert client_of(root).post("/reservations/", asked).status_code == 302
    assert 'class="mt"' in client_of(alice).get("/reservations/?zoom=week").content.decode()


def test_the_feed_opens_by_its_secret_address_alone(node, client_of, alice, bob):
    now = clock.now()
    book(alice, now, HOUR, gpus=2, title="talk; demo, " + "é" * 60)
    book(bob, now, HOUR, gpus=2, team="speech", title="secret plan")
    browser = client_of(alice)

    def address() -> str:
        page = browser.post("/reservations/feed/", follow=True).content.decode()
        return re.search(r"Subscribe to \S+?(/reservations/feed/\S+?\.ics)\.", page).group(1)

    first = address()
    feed = Client().get(first)
    assert feed["Content-Type"].startswith("text/calendar")
    text = feed.content.decode()
    assert text.startswith("BEGIN:VCALENDAR\r\n") and text.endswith("END:VCALENDAR\r\n")
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    assert "talk\\; demo\\, é" in text.replace("\r\n ", "") and "secret plan" not in text
    assert Client().get(address()).status_code == 200
    assert Client().get(first).status_code == 404
    assert Client().get("/reservations/feed/guess.ics").status_code == 404


def fill(alice, nodes: int, bookings: int, days: int) -> None:
    """Many bookings straight into the tables."""
    team = alice.memberships.get().team
    start = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    cards = {}
    for card, name in Card.objects.order_by("gpu__index").values_list("pk", "gpu__node__name"):
        cards.setdefault(name, []).append(card)
    names = sorted(cards)
    each = bookings // nodes
    rows, held = [], []
    for number in range(bookings):
        begin = start + timedelta(days=days) * (number // nodes) / each
        end = begin + timedelta(days=days) / each * 0.8
        rows.append(
            Reservation(
                team=team, user=alice, gpus=4, start_at=begin, end_at=end, made_at=start,
                title=f"run {number}",
            )
        )  # fmt: skip
    for number, row in enumerate(Reservation.objects.bulk_create(rows)):
        for card in cards[names[number % nodes]][:4]:
            held.append(
                ReservationCard(reservation=row, card_id=card, during=(row.start_at, row.end_at))
            )
    ReservationCard.objects.bulk_create(held)


def test_a_month_of_64_nodes_with_2000_bookings_is_drawn_in_few_queries_and_bytes(
    shop, client_of, alice, bob, django_assert_max_num_queries
):
    for number in range(64):
        builders.node(f"n{number:02}", cards=8)
    fill(alice, 64, 1984, 31)
    browser = client_of(alice)

    for user in (alice, bob):
        browser = client_of(user)
        with django_assert_max_num_queries(24):
            page = browser.get("/reservations/?zoom=month")
        assert page.content.decode().count("<rect") > 1984
        assert len(page.content) <= 500_000
