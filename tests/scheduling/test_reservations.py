"""Booking cards: one ledger for slots and jobs, one path for create and edit, a way for each no."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from nodes import clock
from nodes.models import Gpu
from scheduling import booking_orders, leases
from scheduling.actors import person
from scheduling.errors import AgainstRule, InvalidOrder, NeverFits, Taken, WrongState
from scheduling.models import (
    Attempt,
    AuditEntry,
    BookingRule,
    Card,
    Job,
    Part,
    PriorityClass,
    Quota,
    Reservation,
    ReservationCard,
)
from scheduling.services import reservations
from tests import builders

HOUR = timedelta(hours=1)


@pytest.fixture
def now(db) -> datetime:
    return clock.now().replace(second=0, microsecond=0) + timedelta(minutes=1)


def book(user, now, start=HOUR, length=HOUR, *, team="vision", at=None, **more) -> Reservation:
    fields = {
        "team": team,
        "start": (now + start).isoformat(),
        "end": (now + start + length).isoformat(),
        **({} if "on" in more or "cards" in more else {"gpus": 8}),
    } | more
    order = booking_orders.parse(fields)
    return reservations.create(person(user), order, user_id=user.pk, at=at or now)


def uuids(row: Reservation) -> list[str]:
    return sorted(one.card.gpu.uuid for one in row.cards.filter(live=True))


def runs(user, gpu_uuids, now, *, team="vision", limit=HOUR, priority="normal") -> Job:
    """A job that has been running on these cards since now."""
    job = builders.row(
        user,
        team=builders.Team.objects.get(name=team),
        state="RUNNING",
        gpus=len(gpu_uuids),
        time_limit_s=int(limit.total_seconds()),
        grace_s=60,
        priority_class=PriorityClass.objects.get(name=priority),
    )
    attempt = Attempt.objects.create(job=job, number=1, placed_at=now, started_at=now)
    cards = Card.objects.filter(gpu__uuid__in=gpu_uuids)
    part = Part.objects.create(
        attempt=attempt,
        node=cards[0].gpu.node,
        ranks=len(gpu_uuids),
        cpus=1,
        memory_mib=1,
        port=29400 + job.pk,
    )
    leases.take(part, [card.pk for card in cards], at=now)
    return job


def test_a_booking_takes_the_node_it_fills_most_tightly(alice, now):
    builders.node("a", cards=8)
    builders.node("b", cards=4)

    assert uuids(book(alice, now, gpus=4)) == [f"GPU-b-{i}" for i in range(4)]
    assert uuids(book(alice, now, gpus=2)) == ["GPU-a-0", "GPU-a-1"]


def test_slots_that_touch_do_not_conflict(alice, now):
    builders.node("a")

    book(alice, now, HOUR)
    book(alice, now, 2 * HOUR)
    with pytest.raises(Taken):
        book(alice, now, 2 * HOUR - timedelta(seconds=1))


def test_who_comes_second_is_told_who_has_the_cards_and_the_next_free_slot(alice, bob, now):
    builders.node("a")
    first = book(alice, now, HOUR, 2 * HOUR)

    with pytest.raises(Taken) as refused:
        book(bob, now, 2 * HOUR, team="speech")

    assert f"reservation {first.pk}" in refused.value.cause
    free = now + 3 * HOUR
    assert f"Next free for 8 × GPU on one node: {free:%a %-d %b %Y, %H:%M} UTC." in str(
        refused.value
    )
    book(bob, now, 3 * HOUR, team="speech")


@pytest.mark.parametrize(
    ("start", "length", "field", "words"),
    [
        (-timedelta(minutes=5), HOUR, "start", "was 5 min ago"),
        (HOUR, -HOUR, "end", "before its start"),
        (HOUR, timedelta(), "end", "is its start"),
    ],
)
def test_a_slot_that_is_none_is_refused_by_its_field(alice, now, start, length, field, words):
    builders.node("a")

    with pytest.raises(InvalidOrder) as refused:
        book(alice, now, start, length)
    assert words in refused.value.fields[field]


def test_ten_years_are_refused_by_the_rule_with_its_number(alice, now):
    builders.node("a")

    with pytest.raises(AgainstRule, match="at most 14 d at a time"):
        book(alice, now, HOUR, timedelta(days=3650))


@pytest.mark.parametrize("text", ["2026-12-03T09:00", "tomorrow", "2026-13-03T09:00Z", "0001"])
def test_a_time_without_a_zone_or_no_time_at_all_is_refused(text):
    with pytest.raises(InvalidOrder) as refused:
        booking_orders.parse({"team": "vision", "gpus": 1, "start": text, "duration": "1h"})
    assert "start" in refused.value.fields


@pytest.mark.parametrize(
    "change",
    [
        {"gpus": 0}, {"gpus": True}, {"gpus": 1.5}, {"gpus": 3, "nodes": 2}, {"title": "a\nb"},
        {"title": "x" * 200}, {"kind": "party"}, {"colour": "red"}, {"on": [1]}, {"on": {}},
        {"end": 5}, {"duration": "soon"}, {"duration": -1}, {"cards": ["x"]}, {"team": ""},
        {"end": "2026-12-03T09:00Z", "duration": "1h"}, {"gpu_memory_gib": "many"},
    ],
)  # fmt: skip
def test_a_booking_that_is_none_is_refused_by_name(change):
    fields = {"team": "vision", "gpus": 2, "start": "2026-12-03T09:00Z"}
    with pytest.raises(InvalidOrder) as refused:
        booking_orders.parse(fields | ({} if "end" in change else {"duration": "1h"}) | change)
    assert refused.value.fields


def test_what_no_node_has_is_told_with_the_most_there_is(alice, now):
    builders.node("a", cards=4)

    with pytest.raises(NeverFits, match="the most on one node is 4"):
        book(alice, now, gpus=8)
    with pytest.raises(InvalidOrder, match="no node 'z'"):
        book(alice, now, on=["z"])


def test_nodes_and_cards_can_be_booked_by_name(alice, root, now):
    builders.node("a", cards=4)
    builders.node("b", cards=4)

    assert uuids(book(alice, now, on=["b"])) == [f"GPU-b-{i}" for i in range(4)]
    assert uuids(book(alice, now, cards=["GPU-a-2", "GPU-a-1"])) == ["GPU-a-1", "GPU-a-2"]
    assert uuids(book(alice, now, on=["a"], gpus=1, nodes=1)) == ["GPU-a-0"]
    row = book(root, now, 5 * HOUR, on=["a", "b"], kind="maintenance", team="")
    assert row.gpus == 8


def test_a_running_job_is_waited_for_up_to_its_limit_and_not_longer(alice, now):
    builders.node("a", cards=2)
    runs(alice, ["GPU-a-0"], now, limit=HOUR)

    with pytest.raises(Taken, match="job"):
        book(alice, now, HOUR, gpus=2)
    book(alice, now, HOUR + timedelta(minutes=2), gpus=2)


def test_a_job_of_a_slot_is_waited_for_up_to_the_end_of_its_slot(alice, bob, now):
    builders.node("a")
    row = book(alice, now, timedelta(), HOUR)
    job = runs(alice, uuids(row), now, limit=24 * HOUR)
    Job.objects.filter(pk=job.pk).update(reservation=row)

    with pytest.raises(Taken):
        book(bob, now, HOUR / 2, team="speech")
    book(bob, now, HOUR, team="speech")


def test_a_preemptible_job_gives_way_after_its_window(alice, now):
    builders.node("a", cards=2)
    runs(alice, ["GPU-a-0"], now, limit=10 * HOUR, priority="low")

    with pytest.raises(Taken):
        book(alice, now, timedelta(seconds=80), gpus=2)
    book(alice, now, timedelta(seconds=95), gpus=2)


def test_cards_out_of_service_are_not_booked(alice, now):
    builders.node("a", cards=2)
    Gpu.objects.filter(uuid="GPU-a-0").update(health="failed")

    assert uuids(book(alice, now, gpus=1)) == ["GPU-a-1"]
    with pytest.raises(NeverFits):
        book(alice, now, gpus=2)


def test_booked_cards_count_against_the_teams_limit(alice, bob, now):
    for name in "abc":
        builders.node(name)
    book(alice, now, gpus=16, nodes=2)

    with pytest.raises(Taken, match="vision may hold 16 cards and has booked 16") as refused:
        book(alice, now, HOUR + HOUR / 2, gpus=1)
    free = now + 2 * HOUR
    assert f"{free:%H:%M} UTC" in refused.value.next_step
    book(bob, now, gpus=8, team="speech")


def test_the_teams_own_jobs_that_would_still_run_are_named(alice, now):
    for name in "abc":
        builders.node(name)
    job = runs(alice, [f"GPU-c-{i}" for i in range(8)], now, limit=5 * HOUR)

    with pytest.raises(Taken, match=f"its job {job.pk} would still run"):
        book(alice, now, gpus=16, nodes=2)


def test_a_limit_lowered_below_what_is_booked_keeps_the_booking_and_refuses_more(alice, now):
    builders.node("a")
    row = book(alice, now)
    Quota.objects.filter(team=row.team).update(nominal_milli=4000)

    row.refresh_from_db()
    assert row.live and len(uuids(row)) == 8
    builders.node("b")
    with pytest.raises(Taken, match="may hold 4 cards and has booked 8"):
        book(alice, now, HOUR + HOUR / 2, gpus=1)


def test_rules_are_rows_and_the_nearest_up_the_tree_counts(alice, now):
    builders.node("a")
    lab = builders.Team.objects.get(name="lab")
    BookingRule.objects.create(team=None, ahead_s=60)
    BookingRule.objects.create(team=lab, ahead_s=24 * 3600, open_at_once=2, gpu_hours_a_week=24)

    with pytest.raises(AgainstRule, match="may book 1 d ahead"):
        book(alice, now, 30 * HOUR)
    book(alice, now, gpus=2)
    with pytest.raises(AgainstRule, match="has 22 of 24 left"):
        book(alice, now, HOUR, 4 * HOUR, gpus=6)
    book(alice, now, gpus=2)
    with pytest.raises(AgainstRule, match="has 2 open reservations, and 2 are allowed"):
        book(alice, now, gpus=2)


def test_an_edit_may_grow_over_itself_and_not_into_a_neighbour(alice, now):
    builders.node("a")
    row = book(alice, now, HOUR, HOUR)
    after = book(alice, now, 4 * HOUR, HOUR)
    change = booking_orders.parse_change({"end": (now + 4 * HOUR).isoformat()})

    row = reservations.change(person(alice), row, change, at=now)
    assert row.end_at == after.start_at
    longer = booking_orders.parse_change({"duration": "4h"})
    with pytest.raises(Taken, match=f"reservation {after.pk}"):
        reservations.change(person(alice), row, longer, at=now)
    row.refresh_from_db()
    assert row.end_at == after.start_at
    assert {one.during.upper for one in row.cards.all()} == {row.end_at}


def test_an_edit_moves_all_cards_together_and_keeps_them_if_it_can(alice, now):
    builders.node("a")
    builders.node("b")
    row = book(alice, now, gpus=4)
    was = uuids(row)

    more = booking_orders.parse_change({"gpus": 6, "start": (now + 2 * HOUR).isoformat()})
    row = reservations.change(person(alice), row, more, at=now)

    assert set(was) < set(uuids(row)) and len(uuids(row)) == 6
    assert row.end_at - row.start_at == HOUR


def test_what_has_begun_keeps_its_start_and_cards_and_may_be_extended(alice, now):
    builders.node("a")
    row = book(alice, now, timedelta(), HOUR)
    later = now + HOUR / 2

    longer = booking_orders.parse_change({"end": (now + 3 * HOUR).isoformat()})
    row = reservations.change(person(alice), row, longer, at=later)
    assert row.end_at == now + 3 * HOUR
    for sent in ({"start": (now + HOUR).isoformat()}, {"gpus": 4}):
        with pytest.raises(WrongState, match="its start and its cards stay"):
            reservations.change(person(alice), row, booking_orders.parse_change(sent), at=later)
    with pytest.raises(InvalidOrder):
        sent = booking_orders.parse_change({"end": (now + HOUR / 4).isoformat()})
        reservations.change(person(alice), row, sent, at=later)


def test_cancelling_frees_the_slot_and_giving_back_frees_the_rest(alice, now):
    builders.node("a")
    later, running = book(alice, now, 2 * HOUR), book(alice, now, timedelta(), HOUR)

    assert reservations.cancel(person(alice), later, at=now).state == "cancelled"
    half = now + HOUR / 2
    given = reservations.cancel(person(alice), running, at=half, reason="done early")
    assert (given.state, given.end_at) == ("given_back", half)
    book(alice, half, timedelta(), 5 * HOUR)
    with pytest.raises(WrongState):
        reservations.cancel(person(alice), given, at=half)
    noted = AuditEntry.objects.filter(subject=f"reservation {running.pk}")
    assert [(e.actor, e.verb, e.reason) for e in noted] == [
        ("alice", "given back", "done early"), ("alice", "book", ""),
    ]  # fmt: skip


def test_an_edit_of_what_somebody_changed_meanwhile_is_refused(alice, carol, now):
    builders.node("a")
    row = book(alice, now)
    stale = Reservation.objects.get(pk=row.pk)

    def meanwhile(*_args, **_more):
        Reservation.objects.filter(pk=row.pk).update(version=7)
        return cards(*_args, **_more)

    cards = reservations.slot_choice.candidates
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reservations.slot_choice, "candidates", meanwhile)
        with pytest.raises(WrongState, match="changed by somebody else"):
            sent = booking_orders.parse_change({"duration": "2h"})
            reservations.change(person(carol), stale, sent, at=now)


def test_postgresql_itself_refuses_a_card_booked_twice_at_a_time(alice, now):
    builders.node("a")
    one, two = book(alice, now, HOUR), book(alice, now, 3 * HOUR)
    card = ReservationCard.objects.filter(reservation=one).first()

    with pytest.raises(IntegrityError), transaction.atomic():
        ReservationCard.objects.filter(reservation=two).update(during=card.during)


def test_a_start_that_just_passed_means_now(alice, now):
    builders.node("a")

    row = book(alice, now, timedelta(seconds=-30), HOUR)
    assert row.start_at == now
    assert row.start_at.astimezone(UTC).tzinfo is UTC
