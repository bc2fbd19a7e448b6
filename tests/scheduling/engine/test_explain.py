"""What is refused at submit with the largest that could run, and what would start now."""

from dataclasses import replace

import pytest

from scheduling.engine.explain import Way, ask, ever
from scheduling.engine.world import Booking, Job, Limit, Pool, Use, World

from .worlds import GIB, NOW_US, job, world

S = 1_000_000

LAB = world(
    nodes={"a": 8, "b": 8, "c": 4},
    models={"c": "T4"},
    held={"a": 8, "b": 8, "c": 4},
    fields={"a": {"accepts_work": False}, "b": {"labels": (("fabric", "ib"),)}},
    uses=[Use(1, "H100", 16_000, 0, 0)],
    limits=[Limit(1, "", 12_000, cpus=96)],
)

FITS = [
    {"gpus": 8},
    {"gpus": 12, "nodes": 2, "gpu_model": "H100", "cpus": 0},
    {"gpus": 4, "gpu_model": "T4", "excluded": frozenset({3})},
    {"gpus": 1, "gpu_memory_mib": 80 * GIB},
    {"gpus": 8, "labels": (("fabric", "ib"),)},
]


@pytest.mark.parametrize("asked", FITS, ids=str)
def test_what_some_state_of_the_nodes_could_hold_is_not_refused(asked: dict[str, int]) -> None:
    assert ever(LAB, job(1, **asked)) is None


NEVER = [
    ({"gpus": 16}, "gpus", 8),
    ({"gpus": 18, "nodes": 2}, "gpus", 8),
    ({"gpus": 5, "gpu_model": "T4"}, "gpus", 4),
    ({"gpus": 3, "nodes": 3, "gpu_model": "H100"}, "nodes", 2),
    ({"gpu_memory_mib": 81 * GIB}, "card_memory", 80 * GIB),
    ({"gpus": 8, "cpus": 65}, "cpus", 64),
    ({"gpus": 2, "nodes": 2, "cpus": 130, "gpu_model": "H100"}, "cpus", 64),
    ({"gpus": 8, "memory_mib": 513 * GIB}, "memory", 512 * GIB),
    ({"disk_gib": 801}, "disk", 800),
    ({"gpus": 14, "nodes": 2, "gpu_model": "H100", "cpus": 0}, "limit", 12_000),
    ({"gpus": 2, "nodes": 2, "cpus": 100}, "limit", 96),
]


@pytest.mark.parametrize(("asked", "what", "largest"), NEVER, ids=[str(row[0]) for row in NEVER])
def test_what_no_state_could_hold_is_refused_with_the_largest_that_could(
    asked: dict[str, int], what: str, largest: int
) -> None:
    refused = ever(LAB, job(1, **asked))

    assert refused is not None
    assert refused.code == "NeverFits"
    told = dict(refused.numbers)
    assert (told["what"], told["largest"]) == (what, largest)


def test_cards_on_one_node_and_cores_on_another_never_fit_together() -> None:
    fields: dict[str, dict[str, object]] = {"a": {"cpus": 16}, "b": {"cpus": 64}}
    uneven = world(nodes={"a": 8, "b": 4}, fields=fields)

    refused = ever(uneven, job(1, gpus=8, cpus=32))

    assert refused is not None
    told = dict(refused.numbers)
    assert (told["what"], told["largest"]) == ("cpus", 16)


def test_a_model_that_is_not_there_is_refused_with_those_that_are() -> None:
    refused = ever(LAB, job(1, gpu_model="V100"))

    assert refused is not None
    assert dict(refused.numbers) == {"what": "model", "asked": "V100", "models": "H100, T4"}


def test_labels_that_no_node_wears_are_refused() -> None:
    refused = ever(LAB, job(1, labels=(("fabric", "ib"), ("rack", "r9"))))

    assert refused is not None
    assert dict(refused.numbers)["asked"] == "fabric=ib, rack=r9"


def test_a_pool_without_cards_is_refused() -> None:
    refused = ever(LAB, job(1, pool=9))

    assert refused is not None
    assert dict(refused.numbers)["what"] == "pool"


def test_too_many_cards_for_a_node_are_told_over_how_many_nodes_they_would_go() -> None:
    refused = ever(LAB, job(1, gpus=12))

    assert refused is not None
    assert dict(refused.numbers)["spread"] == 2


@pytest.fixture
def afternoon() -> World:
    """Three free H100 on each of two nodes, four free T4 on a third."""
    return world(nodes={"a": 8, "b": 8, "c": 4}, models={"c": "T4"}, held={"a": 5, "b": 5})


def ways(day: World, asked: Job) -> tuple[Way, ...]:
    return ask(replace(day, jobs=(*day.jobs, asked)), asked).ways


def test_the_ways_to_start_now_are_fewer_cards_another_model_and_more_nodes(
    afternoon: World,
) -> None:
    found = ways(afternoon, job(1, gpus=4, gpu_model="H100"))

    assert found == (Way("gpus", 3), Way("gpu_model", "T4"), Way("nodes", 2))


def test_no_way_is_offered_where_none_starts(afternoon: World) -> None:
    assert ways(afternoon, job(1, gpus=1, labels=(("fabric", "ib"),))) == ()
    assert ways(afternoon, job(1, gpus=3, nodes=2)) == ()


def test_another_pool_is_a_way() -> None:
    day = world({"a": 2, "b": 8}, fields={"b": {"pool": 7}})

    assert Way("pool", 7) in ways(day, job(1, gpus=4))


def test_the_longest_limit_that_ends_before_a_booking_is_a_way() -> None:
    day = world({"a": 4})
    bookings = tuple(
        Booking(id, (id,), NOW_US + id * 100 * S, NOW_US + 10**12) for id in (1, 2, 3, 4)
    )
    day = replace(day, bookings=bookings)

    assert Way("limit_us", 300 * S) in ways(day, job(1, gpus=2, limit_us=9000 * S))
    assert Way("limit_us", 100 * S) in ways(day, job(1, gpus=4, limit_us=9000 * S))


def test_who_is_ahead_for_the_same_cards_is_named() -> None:
    queue = [job(1, gpus=8), job(2, gpus=8, gpu_model="T4"), job(3, gpus=8, pool=2), job(4, gpus=8)]
    day = world({"a": 8}, held={"a": 1}, queue=[*queue, job(5, gpus=8, gpu_model="H100")])

    assert ask(day, day.jobs[-1]).ahead == (1, 4)


def test_a_job_whose_turn_comes_with_room_starts_and_needs_no_way() -> None:
    day = world({"a": 8}, queue=[job(1, gpus=8, priority=-1), job(2, gpus=8)])

    assert ask(day, day.jobs[1]).starts
    assert not ask(day, day.jobs[0]).starts


def test_in_a_strict_queue_no_change_lets_a_job_past_the_one_that_waits() -> None:
    day = world({"a": 8, "b": 1}, held={"a": 7}, queue=[job(1, gpus=8), job(2, gpus=2)])
    strict = replace(day, pools=(Pool(1, strict=True),))

    assert ask(day, day.jobs[1]).ways
    assert not ask(strict, strict.jobs[1]).ways
