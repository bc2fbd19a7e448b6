"""No card is booked twice at a time, whoever asks how often at once; an edit is a booking anew."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier

import pytest
from django.db import connection, transaction

from nodes import clock
from scheduling import booking_orders
from scheduling.actors import person
from scheduling.errors import SchedulingError, Taken
from scheduling.models import Quota, Reservation, ReservationCard
from scheduling.services import reservations
from tests import builders

HOUR = timedelta(hours=1)


def fields(now: datetime, start: int, length: int, gpus: int = 1, **more) -> dict:
    begin = now + start * HOUR
    return {
        "team": "vision",
        "gpus": gpus,
        "start": begin.isoformat(),
        "end": (begin + length * HOUR).isoformat(),
    } | more


def book(user, now: datetime, *args, **more) -> Reservation:
    order = booking_orders.parse(fields(now, *args, **more))
    return reservations.create(person(user), order, user_id=user.pk, at=now)


def overlaps() -> int:
    """Pairs of live rows of one card that share a moment: counted, not trusted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM scheduling_reservationcard a JOIN scheduling_reservationcard b "
            "ON a.card_id = b.card_id AND a.id < b.id "
            "WHERE a.live AND b.live AND a.during && b.during"
        )
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_fifty_writers_and_one_winner_for_each_slot():
    made = builders.shop()
    alice = made.users["alice"]
    builders.node("a", cards=1)
    now = clock.now()
    gate = Barrier(50)

    def click(number: int) -> str:
        gate.wait()
        try:
            book(alice, now, 1 + number % 5, 1)
        except Taken:
            return "taken"
        finally:
            connection.close()
        return "won"

    with ThreadPoolExecutor(50) as crowd:
        said = list(crowd.map(click, range(50)))

    assert said.count("won") == 5
    starts = [row.start_at for row in Reservation.objects.all()]
    assert len(set(starts)) == 5 and overlaps() == 0


def refused(act) -> bool:
    """Try something and undo it. Was it refused?"""
    try:
        with transaction.atomic():
            act()
            transaction.set_rollback(True)
    except SchedulingError:
        return True
    return False


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_done_no_card_is_booked_twice_and_an_edit_is_a_booking_anew(alice, seed):
    chance = random.Random(seed)  # noqa: S311 - a story that can be told again
    Quota.objects.all().delete()
    builders.node("a", cards=4)
    builders.node("b", cards=2)
    now = clock.now()
    for _ in range(25):
        rows = list(Reservation.objects.filter(state="booked"))
        start, length = chance.randint(1, 8), chance.randint(1, 4)
        gpus = chance.randint(1, 4)
        wish = fields(now, start, length, gpus)
        try:
            if rows and chance.random() < 0.6:
                row = chance.choice(rows)
                change = {name: wish[name] for name in ("gpus", "start", "end")}
                asked = booking_orders.parse_change(change)

                def edit(row=row, asked=asked):
                    reservations.change(person(alice), row, asked, at=now)

                def anew(row=row, wish=wish):
                    reservations.cancel(person(alice), row, at=now)
                    order = booking_orders.parse(wish)
                    reservations.create(person(alice), order, user_id=alice.pk, at=now)

                assert refused(edit) == refused(anew)
                edit()
            elif rows and chance.random() < 0.2:
                reservations.cancel(person(alice), chance.choice(rows), at=now)
            else:
                book(alice, now, start, length, gpus)
        except SchedulingError:
            pass
        assert overlaps() == 0
        for row in Reservation.objects.filter(state="booked"):
            cards = ReservationCard.objects.filter(reservation=row, live=True)
            assert cards.count() == row.gpus
