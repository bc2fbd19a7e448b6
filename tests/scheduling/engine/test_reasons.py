"""What a waiting job is told: every blocker at once, with the numbers that make it true."""

from dataclasses import replace

import pytest

from scheduling.engine.plan import plan
from scheduling.engine.world import Gpu, Limit, Use, World, reason

from .worlds import GIB, NOW_US, codes, job, node, placed, why, world


def numbers(world_: World, job_id: int = 1, code: str = "") -> dict[str, int | str]:
    """The numbers of a job's first reason, or of its first with this code."""
    reasons = why(plan(world_), job_id)
    return dict(next(r for r in reasons if code in ("", r.code)).numbers)


SHORT = [
    ("gpus", {"gpus": 8}, {}),
    ("cpus", {"cpus": 20}, {"cpus_free": 12}),
    ("memory", {"memory_mib": 300 * GIB}, {"memory_free_mib": 200 * GIB}),
    ("disk", {"disk_gib": 600}, {"disk_free_gib": 500}),
]


@pytest.mark.parametrize(("what", "asked", "left"), SHORT, ids=[row[0] for row in SHORT])
def test_one_thing_short_is_the_one_thing_named(
    what: str, asked: dict[str, object], left: dict[str, object]
) -> None:
    held = {"a": 2} if what == "gpus" else {}
    day = world(nodes={"a": 8}, held=held, queue=[job(1, **asked)], fields={"a": left})

    (only,) = why(plan(day), 1)

    assert only.code == "Resources"
    assert dict(only.numbers)["what"] == what


def test_missing_cards_are_told_with_what_is_free_and_what_is_withheld() -> None:
    states = ["", "held", "failed", "foreign", "foreign", "releasing"]
    cards = tuple(
        Gpu(i, f"GPU-{i}", i, "H100", 80 * GIB, free=not state, why_not=state)
        for i, state in enumerate(states, start=1)
    )
    day = World(NOW_US, (node(1, "a", cards),), (job(1, gpus=4),))

    assert numbers(day) == {
        "what": "gpus",
        "model": "H100",
        "asked": 4,
        "free": 1,
        "failed": 1,
        "foreign": 2,
        "releasing": 1,
    }


def test_four_cards_in_two_halves_are_fragmented_until_two_more_are_free() -> None:
    split = world(nodes={"a": 8, "b": 8}, held={"a": 6, "b": 6}, queue=[job(1, gpus=4)])
    eased = world(nodes={"a": 8, "b": 8}, held={"a": 4, "b": 6}, queue=[job(1, gpus=4)])

    assert codes(plan(split)) == {1: ["Fragmented"]}
    assert numbers(split) == {
        "model": "H100",
        "asked": 4,
        "free": 4,
        "nodes": 1,
        "per_node": 4,
        "most": 2,
        "roomy": 0,
        "partly": 2,
    }
    assert placed(plan(eased)) == {1: (5, 6, 7, 8)}


def test_a_gang_is_told_how_many_nodes_have_room() -> None:
    nodes = {"a": 8, "b": 8, "c": 8}
    split = world(nodes=nodes, held={"b": 2, "c": 4}, queue=[job(1, gpus=16, nodes=2)])

    told = numbers(split)

    assert (told["roomy"], told["nodes"], told["free"]) == (1, 2, 18)


def test_numbers_speak_of_what_is_left_after_the_cycle() -> None:
    day = world(nodes={"a": 8}, held={"a": 2}, queue=[job(1, gpus=8), job(2, gpus=4)])

    assert numbers(day)["free"] == 2


def test_cards_on_one_node_and_cores_on_another_are_told_as_missing_cores() -> None:
    fields = {"a": {"cpus_free": 6}}
    day = world(nodes={"a": 8, "b": 8}, held={"b": 8}, queue=[job(1, cpus=48)], fields=fields)

    assert codes(plan(day)) == {1: ["Resources"]}
    assert numbers(day) == {
        "what": "cpus",
        "model": "H100",
        "node": "a",
        "nodes": 1,
        "free": 6,
        "asked": 48,
    }


def test_cores_that_come_back_with_the_missing_cards_are_not_told_apart() -> None:
    day = world(
        nodes={"a": 8}, held={"a": 6}, fields={"a": {"cpus_free": 16}}, queue=[job(1, gpus=4)]
    )

    assert [numbers(day)["what"]] == [dict(r.numbers)["what"] for r in why(plan(day), 1)]


def test_a_closed_node_that_is_needed_is_named_with_why() -> None:
    closed = {"b": {"accepts_work": False, "why_not": "drained"}}
    day = world(nodes={"a": 8, "b": 8}, queue=[job(1, gpus=16, nodes=2)], fields=closed)

    assert why(plan(day), 1) == (
        reason("NodeUnavailable", nodes=1, left_out=0, asked=2, names="b", why="drained"),
    )


def test_a_closed_node_with_room_is_told_beside_what_is_short() -> None:
    closed = {"b": {"accepts_work": False}}
    day = world(nodes={"a": 8, "b": 8}, held={"a": 8}, queue=[job(1)], fields=closed)

    assert codes(plan(day)) == {1: ["Resources", "NodeUnavailable"]}


def test_a_node_left_out_for_the_job_is_counted_as_such() -> None:
    day = world(nodes={"a": 8}, queue=[job(1, excluded=frozenset({1}))])

    told = numbers(day, code="NodeUnavailable")

    assert (told["names"], told["left_out"]) == ("a", 1)


def test_a_gang_left_out_of_both_its_nodes_names_each_once() -> None:
    left_out = job(1, gpus=4, nodes=2, excluded=frozenset({1, 2}))
    day = world(nodes={"a": 8, "b": 8}, queue=[left_out])

    assert numbers(day)["names"] == "a, b"


def test_a_job_that_backs_off_says_for_how_long() -> None:
    day = world(nodes={"a": 8}, queue=[job(1, eligible_us=NOW_US + 1_200_000)])

    assert why(plan(day), 1) == (reason("Backoff", seconds=2),)


def test_a_limit_is_told_with_team_held_limit_and_asked() -> None:
    day = world(
        nodes={"a": 8},
        limits=[Limit(1, "H100", 4000)],
        uses=[Use(1, "H100", 3000, 0, 0)],
        queue=[job(1, gpus=2, gpu_model="H100")],
    )

    assert numbers(day) == {
        "team": "vision",
        "team_id": 1,
        "model": "H100",
        "what": "gpus",
        "unit": "milli",
        "held": 3000,
        "limit": 4000,
        "asked": 2000,
    }


def test_all_blockers_are_told_at_once() -> None:
    asked = job(1, gpus=4, cpus=90, eligible_us=NOW_US + 60_000_000)
    day = world(
        nodes={"a": 8, "b": 12},
        held={"a": 8, "b": 10},
        fields={"b": {"cpus_free": 70}},
        limits=[Limit(1, "", 2000)],
        queue=[asked],
    )

    assert codes(plan(day)) == {1: ["Backoff", "QuotaLimit", "Resources", "Resources"]}


def test_jobs_ahead_that_want_the_same_are_counted() -> None:
    queue = [
        job(1, gpus=8, gpu_model="H100"),
        job(2, gpus=8, gpu_model="T4"),
        job(3, gpus=8),
        job(4, gpus=8, gpu_model="H100"),
    ]
    nodes = {"a": 8, "b": 8}
    day = world(nodes=nodes, held={"a": 1, "b": 1}, models={"b": "T4"}, queue=queue)

    ahead = {w.job: dict(w.reasons[-1].numbers).get("ahead") for w in plan(day).waiting}

    assert ahead == {1: None, 2: None, 3: 2, 4: 2}


def test_a_job_held_by_its_own_limit_is_not_ahead_of_anybody() -> None:
    queue = [job(1, gpus=8, team=2), job(2, gpus=8)]
    day = world(nodes={"a": 8}, held={"a": 1}, limits=[Limit(2, "", 0)], queue=queue)

    assert codes(plan(day)) == {1: ["QuotaLimit", "Resources"], 2: ["Resources"]}


def test_an_untyped_job_may_have_another_model_than_the_one_its_team_is_out_of() -> None:
    day = world(
        nodes={"a": 8, "b": 8},
        held={"b": 8},
        models={"b": "T4"},
        limits=[Limit(1, "H100", 0)],
        queue=[job(1)],
    )

    assert [r.code for r in why(plan(day), 1)] == ["Resources"]
    assert numbers(day)["model"] == "T4"


def test_an_untyped_job_that_only_a_limited_model_could_hold_is_told_the_limit() -> None:
    day = world(
        nodes={"a": 8, "b": 2},
        models={"b": "T4"},
        limits=[Limit(1, "H100", 0)],
        queue=[job(1, gpus=4)],
    )

    assert codes(plan(day)) == {1: ["QuotaLimit"]}


def test_what_can_never_fit_is_told_first_and_is_not_ahead_of_anybody() -> None:
    queue = [job(1, gpus=9, eligible_us=NOW_US + 1), job(2, gpus=8)]
    day = world(nodes={"a": 8}, held={"a": 1}, queue=queue)

    assert codes(plan(day)) == {1: ["NeverFits", "Backoff"], 2: ["Resources"]}


def test_reasons_do_not_depend_on_how_many_nodes_are_looked_at() -> None:
    nodes = {f"n{i:03}": 8 for i in range(200)}
    fields: dict[str, dict[str, object]] = {name: {"cpus_free": 4} for name in nodes}
    fields["n150"] = {"cpus_free": 40}
    day = world(nodes=nodes, held={"n150": 4}, fields=fields, queue=[job(1, gpus=8, cpus=40)])

    mended = replace(day, nodes=tuple(replace(node, cpus_free=node.cpus) for node in day.nodes))

    assert codes(plan(day)) == {1: ["Resources"]}
    assert plan(mended).placements
