"""``gangway reserve``, ``reservations`` and ``env``, against a portal that listens."""

import json
import os
import time
from datetime import datetime, timedelta

import pytest

from portal.client.errors import Usage
from portal.client.when import moment
from scheduling.models import Reservation
from tests import builders

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def node(shop):
    return builders.node("n1")


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    os.environ.setdefault("TZ", "UTC")
    time.tzset()


def test_a_slot_is_booked_listed_changed_and_ended(gangway, signed_in, node):
    booked = gangway("reserve", "--gpus", "4", "--model", "H100", "--from", "in 1h", "--for", "4h")
    assert booked.code == 0, booked.err
    number = booked.out.strip()
    assert f"Reservation {number} is booked: n1 GPU 0,1,2,3" in booked.err

    assert number in gangway("reservations", "--mine").out
    longer = gangway("reserve", "--change", number, "--for", "5h", "--json")
    slot = json.loads(longer.out)
    length = datetime.fromisoformat(slot["end"]) - datetime.fromisoformat(slot["start"])
    assert length == timedelta(hours=5)
    assert "is cancelled" in gangway("reserve", "--end", number).err
    assert gangway("reserve", "--end", number).code == 1


def test_who_comes_too_late_is_told_the_next_slot_and_may_ask_for_it(gangway, signed_in, node):
    first = gangway("reserve", "--on", "n1", "--for", "1h")
    assert first.code == 0, first.err

    taken = gangway("reserve", "--gpus", "8", "--for", "1h")
    assert taken.code == 1
    assert "Next free for 8 × GPU on one node" in taken.err
    free = gangway("reserve", "--gpus", "8", "--for", "1h", "--next-free")
    assert free.code == 0 and len(free.out.strip()) == 19
    assert Reservation.objects.count() == 1


def test_env_prints_lines_for_eval(gangway, signed_in, node):
    number = gangway(
        "reserve", "--card", "GPU-n1-5", "--card", "GPU-n1-2", "--for", "1h"
    ).out.strip()
    Reservation.objects.update(state="active")

    said = gangway("env", number)
    assert "export CUDA_VISIBLE_DEVICES=GPU-n1-2,GPU-n1-5" in said.out.splitlines()
    assert "export GANGWAY_NODE=n1" in said.out.splitlines()
    assert gangway("env", number, "--node", "n7").code == 2
    assert gangway("env", "99999").code == 1


def test_times_are_read_as_people_type_them(berlin):
    now = datetime.fromisoformat("2026-12-01T15:00+01:00")

    assert moment("now", now) == "now"
    assert moment("16:30", now) == "2026-12-01T16:30:00+01:00"
    assert moment("Tomorrow 9", now) == "2026-12-02T09:00:00+01:00"
    assert moment("tue 9:00", now) == "2026-12-08T09:00:00+01:00"
    assert moment("in 1h30m", now) == "2026-12-01T16:30:00+01:00"
    assert moment("2026-07-01 9:00", now) == "2026-07-01T09:00:00+02:00"
    assert moment("2026-07-01T09:00Z", now) == "2026-07-01T09:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-03-29 2:30", "does not exist here"),
        ("2026-10-25 2:30", "happens twice here"),
        ("25:00", "is not a time"),
        ("someday", "is not a time"),
        ("", "is not a time"),
        ("in 9999999d", "is not a time"),
        ("in 999999999999999999999h", "is not a time"),
        ("0001-01-01 9:00", "outside 2000 to 9000"),
        ("9999-12-31 23:59", "outside 2000 to 9000"),
    ],
)
def test_an_hour_that_is_none_or_two_is_refused(berlin, text, words):
    with pytest.raises(Usage, match=words):
        moment(text, datetime.fromisoformat("2026-12-01T15:00+01:00"))
