"""Time on cards: exact, half open, and nobody is put where a booking of others begins too soon."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.lanes import FOREVER, Ask, Claim, Lane
from scheduling.engine.plan import plan
from scheduling.engine.world import Booking, Limit, Team, Use, World

from .worlds import NOW_US, codes, job, nodes_of, placed, why, world

S = 1_000_000


def booked(day: World, *gpus: int, start_s: int, end_s: int, id: int = 9, **more: object) -> World:
    booking = Booking(id, gpus, NOW_US + start_s * S, NOW_US + end_s * S, **more)  # type: ignore[arg-type]
    return replace(day, bookings=(*day.bookings, booking))


def test_a_job_that_ends_before_a_booking_begins_runs_on_its_card() -> None:
    day = booked(world({"a": 1}, queue=[job(1, limit_us=60 * S)]), 1, start_s=60, end_s=99)

    assert placed(plan(day)) == {1: (1,)}


def test_a_job_that_could_run_into_a_booking_by_a_moment_waits_and_says_when_it_begins() -> None:
    day = booked(world({"a": 1}, queue=[job(1, limit_us=60 * S + 1)]), 1, start_s=60, end_s=99)

    assert placed(plan(day)) == {}
    (reason,) = why(plan(day), 1)
    assert reason.code == "Reservation"
    assert dict(reason.numbers)["at_s"] == (NOW_US // S + 60) // 60 * 60


def test_a_job_without_a_limit_gets_no_card_that_is_booked_ever() -> None:
    day = booked(world({"a": 2}, queue=[job(1), job(2)]), 1, start_s=10**9, end_s=10**9 + 1)

    assert placed(plan(day)) == {1: (2,)}
    assert codes(plan(day)) == {2: ["Reservation"]}


def test_maintenance_is_told_by_its_name() -> None:
    day = world({"a": 1}, queue=[job(1, limit_us=60 * S)])
    day = booked(day, 1, start_s=30, end_s=99, kind="maintenance")

    assert codes(plan(day)) == {1: ["Maintenance"]}


def test_a_job_of_the_booking_runs_in_it_and_nobody_else_does() -> None:
    queue = [job(1, limit_us=60 * S), job(2, limit_us=60 * S, booking=9)]
    day = booked(world({"a": 1}, queue=queue), 1, start_s=-5, end_s=99)

    assert placed(plan(day)) == {2: (1,)}


def test_a_job_of_a_booking_gets_its_cards_alone_and_not_before_it_begins() -> None:
    queue = [job(1, gpus=2, limit_us=60 * S, booking=9), job(2, limit_us=60 * S, booking=9)]
    lab = world({"a": 4}, queue=queue)

    assert placed(plan(booked(lab, 3, start_s=-5, end_s=99))) == {2: (3,)}
    assert codes(plan(booked(lab, 3, start_s=-5, end_s=99))) == {1: ["SlotFull"]}
    later = replace(lab, jobs=(job(3, booking=9, eligible_us=NOW_US + 50 * S),))
    early = plan(booked(later, 3, start_s=50, end_s=99))
    assert codes(early) == {3: ["SlotAhead"]}
    assert dict(why(early, 3)[0].numbers)["at_s"] == (NOW_US // S + 50) // 60 * 60


def test_a_job_of_a_booking_is_not_charged_beside_it() -> None:
    inside = [job(1, limit_us=60 * S, booking=9), job(2, limit_us=60 * S)]
    lab = world(
        {"a": 2}, queue=inside, limits=[Limit(1, "", 1000)], uses=[Use(1, "H100", 1000, 0, 0)]
    )
    day = booked(lab, 1, start_s=-5, end_s=99, team=1)

    assert placed(plan(day)) == {1: (1,)}
    assert codes(plan(day)) == {2: ["QuotaLimit"]}


def test_a_job_that_can_be_stopped_fills_the_time_up_to_a_booking_unless_it_is_near() -> None:
    firm, soft = (world({"a": 1}, queue=[job(1, preemptible=may)]) for may in (False, True))

    assert placed(plan(booked(firm, 1, start_s=900, end_s=999))) == {}
    assert placed(plan(booked(soft, 1, start_s=900, end_s=999))) == {1: (1,)}
    assert placed(plan(booked(soft, 1, start_s=899, end_s=999))) == {}


def test_a_job_that_would_take_the_quota_of_a_booking_of_its_team_waits() -> None:
    queue = [job(1, limit_us=50 * S), job(2, limit_us=51 * S), job(3, team=2, limit_us=51 * S)]
    lab = world(
        {"a": 4},
        queue=queue,
        teams=[Team(1, "vision", None), Team(2, "speech", None)],
        limits=[Limit(1, "", 2000)],
    )
    day = booked(lab, 1, 2, start_s=50, end_s=99, team=1)

    assert set(placed(plan(day))) == {1, 3}
    assert codes(plan(day)) == {2: ["BookedQuota"]}


def test_a_booking_that_is_over_is_in_nobodys_way() -> None:
    day = booked(world({"a": 1}, queue=[job(1)]), 1, start_s=-9, end_s=0)

    assert placed(plan(day)) == {1: (1,)}


def test_a_longer_job_goes_round_booked_cards_and_a_shorter_one_fills_them() -> None:
    queue = [job(1, gpus=2, limit_us=90 * S), job(2, gpus=2, limit_us=30 * S)]
    day = booked(world({"a": 4}, queue=queue), 1, 2, start_s=60, end_s=99)

    assert placed(plan(day)) == {1: (3, 4), 2: (1, 2)}


def test_a_node_that_is_booked_is_passed_over_for_one_that_is_not() -> None:
    day = world({"a": 2, "b": 8}, queue=[job(1, gpus=2, limit_us=90 * S)])

    assert nodes_of(plan(day)) == {1: (1,)}
    assert nodes_of(plan(booked(day, 1, start_s=60, end_s=99))) == {1: (2,)}


def test_three_jobs_of_thirty_seconds_on_one_card_never_overlap() -> None:
    lane = Lane(0, 1, 8, 8, 8)
    ask = Ask(1, 1, 1, 1, 1, 30 * S)
    starts = []
    for _ in range(3):
        start = lane.earliest(ask, 0)
        assert start is not None
        starts.append(start)
        lane.claim(Claim(start, start + 30 * S, 1, 1, 1, 1))

    assert starts == [0, 30 * S, 60 * S]


CLAIMS = st.builds(
    lambda start, length, mask, cpus: Claim(start, start + length, mask, cpus),
    st.integers(0, 20),
    st.integers(1, 9) | st.just(FOREVER),
    st.integers(0, 15),
    st.integers(0, 3),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(CLAIMS, max_size=7),
    st.integers(1, 4),
    st.integers(0, 6),
    st.integers(1, 9),
    st.integers(0, 12),
)
def test_the_earliest_time_is_the_one_that_trying_every_moment_finds(
    claims: list[Claim], gpus: int, cpus: int, limit: int, after: int
) -> None:
    lane = Lane(0, 15, 6, 0, 0)
    for claim in claims:
        lane.claim(claim)
    ask = Ask(15, gpus, cpus, 0, 0, limit)

    def free(start: int) -> bool:
        moments = range(start, start + limit)
        over = [c for c in claims if any(c.start_us <= m < c.end_us for m in moments)]
        mask = 15
        for claim in over:
            mask &= ~claim.mask
        used = [sum(c.cpus for c in over if c.start_us <= m < c.end_us) for m in moments]
        return mask.bit_count() >= gpus and all(cpus <= max(0, 6 - one) for one in used)

    plain = next((at for at in range(after, 60) if free(at)), None)
    assert lane.earliest(ask, after) == plain
    assert bool(lane.free_for(ask, after)) == free(after)
    assert all(early < late for early, late in pairwise(lane.times))
