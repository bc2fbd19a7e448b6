"""Who gets which cards: the promises of one cycle, told as worlds."""

from dataclasses import replace

import pytest

from scheduling.engine.plan import plan
from scheduling.engine.world import Gpu, Job, Limit, Team, Use, World

from .worlds import GIB, NOW_US, after, codes, job, node, nodes_of, placed, world


def test_a_small_job_fills_the_busier_node_and_leaves_the_empty_one_whole() -> None:
    monday = world(nodes={"a": 8, "b": 8}, held={"b": 6}, queue=[job(1, gpus=2)])

    assert placed(plan(monday)) == {1: (15, 16)}


def test_between_equal_nodes_the_smaller_penalty_wins_and_then_the_name() -> None:
    twins = world(nodes={"b": 8, "a": 8}, queue=[job(1)])
    worn = world(nodes={"b": 8, "a": 8}, queue=[job(1)], fields={"a": {"penalty": 1}})

    assert nodes_of(plan(twins)) == {1: (2,)}
    assert nodes_of(plan(worn)) == {1: (1,)}


def test_the_queue_runs_by_priority_then_submit_time_then_id() -> None:
    queue = [
        job(1, submitted_us=5),
        job(2, submitted_us=4),
        job(3, submitted_us=4),
        job(4, priority=1, submitted_us=9),
    ]
    one_card = world(nodes={"a": 1}, queue=queue)

    decided = plan(one_card)

    assert list(placed(decided)) == [4]
    assert [(w.job, w.position) for w in decided.waiting] == [(2, 1), (3, 2), (1, 3)]


def test_positions_are_counted_in_each_pool() -> None:
    queue = [job(1, gpus=4), job(2, gpus=4, pool=2), job(3, gpus=4)]
    two_pools = world(
        nodes={"a": 4, "b": 4}, held={"a": 1, "b": 1}, queue=queue, fields={"b": {"pool": 2}}
    )

    assert [(w.job, w.position) for w in plan(two_pools).waiting] == [(1, 1), (2, 1), (3, 2)]


def test_a_small_job_passes_a_large_one_that_cannot_start() -> None:
    tuesday = world(nodes={"a": 8}, held={"a": 6}, queue=[job(1, gpus=4), job(2, gpus=2)])

    assert placed(plan(tuesday)) == {2: (7, 8)}


def test_a_gang_takes_the_fewest_leftovers_and_ranks_by_node_name() -> None:
    nodes = {"d": 8, "a": 8, "c": 4, "b": 4}
    gang = world(nodes=nodes, queue=[job(1, gpus=8, nodes=2)])

    assert nodes_of(plan(gang)) == {1: (4, 3)}


def test_a_gang_that_finds_one_node_too_few_takes_nothing() -> None:
    narrow = world(nodes={"a": 8, "b": 8}, held={"b": 1}, queue=[job(1, gpus=16, nodes=2)])

    decided = plan(narrow)

    assert decided.placements == ()
    assert codes(decided) == {1: ["Resources"]}


def test_two_gangs_that_want_all_nodes_do_not_both_start_halfway() -> None:
    nodes = {"a": 8, "b": 8, "c": 8, "d": 8}
    both = world(nodes=nodes, queue=[job(i, gpus=32, nodes=4) for i in (1, 2)])

    decided = plan(both)

    assert nodes_of(decided) == {1: (1, 2, 3, 4)}
    assert [w.job for w in decided.waiting] == [2]


def test_jobs_of_one_cycle_get_different_cards_of_one_node() -> None:
    morning = world(nodes={"a": 8}, queue=[job(1, gpus=2), job(2, gpus=2), job(3, gpus=4)])

    assert placed(plan(morning)) == {1: (1, 2), 2: (3, 4), 3: (5, 6, 7, 8)}


def test_jobs_of_later_cycles_get_other_cards_of_the_node() -> None:
    first = world(nodes={"a": 8}, queue=[job(1, gpus=2)])
    second = replace(after(first, plan(first)), jobs=(job(2, gpus=2),))
    third = replace(after(second, plan(second)), jobs=(job(3, gpus=4),))

    assert placed(plan(second)) == {2: (3, 4)}
    assert placed(plan(third)) == {3: (5, 6, 7, 8)}


def test_a_gang_and_a_job_of_one_cycle_never_meet_on_a_node_that_is_full() -> None:
    queue = [job(1, gpus=16, nodes=2), job(2, gpus=8), job(3, gpus=8)]
    three = world(nodes={"a": 8, "b": 8, "c": 8}, queue=queue)

    decided = plan(three)

    assert nodes_of(decided) == {1: (1, 2), 2: (3,)}
    assert codes(decided) == {3: ["Resources"]}


def test_a_full_node_whose_cards_fail_has_none_to_give() -> None:
    cards = tuple(
        Gpu(i, f"GPU-{i}", i, "H100", 80 * GIB, free=False, why_not=why)
        for i, why in enumerate(["held"] * 6 + ["failed"] * 2, start=1)
    )
    sick = World(NOW_US, (node(1, "a", cards),), (job(1, gpus=6),))

    assert plan(sick).placements == ()


def test_memory_is_counted_in_whole_mib_so_no_job_slips_in_by_rounding() -> None:
    tight = {"a": {"memory_mib": 46_068}}
    queue = [job(i, memory_mib=2000, cpus=0) for i in range(1, 25)]
    many = world(nodes={"a": 24}, queue=queue, fields=tight)

    decided = plan(many)

    assert len(decided.placements) == 23
    assert codes(decided) == {24: ["Resources"]}


def test_a_model_is_never_swapped_for_another() -> None:
    mixed = world(nodes={"a": 8, "b": 8}, models={"a": "T4"}, queue=[job(1, gpu_model="H100")])

    assert nodes_of(plan(mixed)) == {1: (2,)}


def test_all_cards_of_a_job_are_of_one_model() -> None:
    mixed = world(nodes={"a": 4, "b": 4}, models={"a": "T4"}, queue=[job(1, gpus=8, nodes=2)])

    assert plan(mixed).placements == ()


def test_the_smallest_card_that_suffices_is_taken_first() -> None:
    sizes = (80, 24, 40, 24)
    cards = tuple(
        Gpu(i, f"GPU-{i}", i, "A", size * GIB, free=True) for i, size in enumerate(sizes, start=1)
    )
    queue = (job(1, gpu_memory_mib=30 * GIB), job(2, gpus=2))
    drawer = World(NOW_US, (node(1, "a", cards),), queue)

    assert placed(plan(drawer)) == {1: (3,), 2: (2, 4)}


def test_a_card_that_is_watched_is_taken_last_and_still_taken() -> None:
    watched = (1, 0, 1, 0)
    cards = tuple(
        Gpu(i, f"GPU-{i}", i, "A", 80 * GIB, free=True, penalty=p) for i, p in enumerate(watched, 1)
    )
    queue = (job(1, gpus=2), job(2), job(3))

    assert placed(plan(World(NOW_US, (node(1, "a", cards),), queue))) == {
        1: (2, 4), 2: (1,), 3: (3,),
    }  # fmt: skip


def test_a_job_that_names_no_cpu_takes_the_share_of_its_cards_on_each_node() -> None:
    fields = {"a": {"cpus": 90, "memory_mib": 1001}, "b": {"cpus": 16, "memory_mib": 800}}
    uneven = world(nodes={"a": 8, "b": 8}, queue=[job(1, gpus=8, nodes=2)], fields=fields)

    (placement,) = plan(uneven).placements

    assert [(part.cpus, part.memory_mib) for part in placement.parts] == [(44, 500), (8, 400)]


def test_totals_of_a_gang_are_divided_and_rounded_up() -> None:
    asked = job(1, gpus=6, nodes=3, cpus=10, memory_mib=7, disk_gib=5)
    three = world(nodes={"a": 2, "b": 2, "c": 2}, queue=[asked])

    (placement,) = plan(three).placements

    assert [(p.cpus, p.memory_mib, p.disk_gib) for p in placement.parts] == [(4, 3, 5)] * 3


@pytest.mark.parametrize(
    "asked",
    [
        {"labels": (("fabric", "ib"),)},
        {"excluded": frozenset({1})},
        {"pool": 2},
    ],
)
def test_labels_left_out_nodes_and_pools_are_kept(asked: dict[str, object]) -> None:
    fields = {"b": {"labels": (("fabric", "ib"), ("rack", "r7")), "pool": asked.get("pool", 1)}}
    two = world(nodes={"a": 2, "b": 8}, queue=[job(1, **asked)], fields=fields)

    assert nodes_of(plan(two)) == {1: (2,)}


def test_a_closed_node_gets_no_work() -> None:
    drained = world(nodes={"a": 2, "b": 8}, queue=[job(1)], fields={"a": {"accepts_work": False}})

    assert nodes_of(plan(drained)) == {1: (2,)}


def test_an_untyped_job_counts_against_the_limit_on_the_model_it_would_get() -> None:
    limits = [Limit(1, "H100", 2000)]
    both = world(
        nodes={"a": 4, "b": 8},
        models={"b": "T4"},
        limits=limits,
        queue=[job(1, gpus=2), job(2, gpus=2), job(3, gpus=2, gpu_model="H100")],
    )

    decided = plan(both)

    assert nodes_of(decided) == {1: (1,), 2: (2,)}
    assert codes(decided) == {3: ["QuotaLimit"]}


def test_a_limit_above_the_team_binds_the_team() -> None:
    teams = [Team(1, "lab", None), Team(2, "vision", 1), Team(3, "speech", 1)]
    busy = world(
        nodes={"a": 8},
        teams=teams,
        limits=[Limit(1, "", 4000), Limit(2, "", 8000)],
        uses=[Use(3, "H100", 2000, 0, 0)],
        queue=[job(1, gpus=2, team=2), job(2, gpus=1, team=2)],
    )

    decided = plan(busy)

    assert list(placed(decided)) == [1]
    assert codes(decided) == {2: ["QuotaLimit"]}


def test_a_limit_on_cpu_binds_jobs_that_take_their_share() -> None:
    share = world(
        nodes={"a": 8}, limits=[Limit(1, "", None, cpus=20)], queue=[job(1, gpus=2), job(2)]
    )

    decided = plan(share)

    assert list(placed(decided)) == [1]
    assert dict(decided.waiting[0].reasons[0].numbers)["asked"] == 8
    assert codes(decided) == {2: ["QuotaLimit"]}


def test_a_ring_of_teams_does_not_hang_the_cycle() -> None:
    ring = world(nodes={"a": 1}, teams=[Team(1, "x", 2), Team(2, "y", 1)], queue=[job(1)])

    assert placed(plan(ring)) == {1: (1,)}


def test_a_job_that_cannot_be_divided_waits_and_does_not_stop_the_others() -> None:
    odd: list[Job] = [job(1, gpus=3, nodes=2), job(2, gpus=0), job(3, gpus=1, nodes=0), job(4)]

    decided = plan(world(nodes={"a": 8}, queue=odd))

    assert list(placed(decided)) == [4]
    assert codes(decided) == {1: ["NeverFits"], 2: ["NeverFits"], 3: ["NeverFits"]}


def test_an_empty_world_gives_an_empty_plan() -> None:
    nothing = plan(World(NOW_US, (), ()))

    assert (nothing.placements, nothing.waiting) == ((), ())


def test_the_example_of_the_page_comes_out_as_told() -> None:
    queue = [job(1, gpus=2), job(2, gpus=16, nodes=2), job(3, gpus=4), job(4, gpus=8)]
    day = world(nodes={"a": 8, "b": 8}, held={"b": 6}, queue=queue)

    decided = plan(day)

    assert nodes_of(decided) == {1: (2,), 3: (1,)}
    assert codes(decided) == {2: ["Resources"], 4: ["Resources", "Priority"]}


@pytest.mark.parametrize("asked", [{"disk_gib": 500}, {"cpus": 40}, {"memory_mib": 300 * GIB}])
def test_what_one_job_takes_of_a_node_the_next_cannot_have(asked: dict[str, object]) -> None:
    day = world(nodes={"a": 8}, queue=[job(1, **asked), job(2, **asked)])

    assert list(placed(plan(day))) == [1]
