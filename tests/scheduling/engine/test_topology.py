"""How near the cards of a job lie: levels, groups, racks and islands, told as worlds."""

from dataclasses import replace

import pytest

from scheduling.engine.explain import ever, sentence
from scheduling.engine.plan import plan
from scheduling.engine.ways import Way, ask
from scheduling.engine.world import Gpu, Job, Node, Plan, Pool, Running, World

from .worlds import NOW_US, codes, job, node, nodes_of, placed, why, world

MINUTE_US = 60_000_000


def racked(racks: dict[str, tuple[int, ...]], *queue: Job, blocks: str = "") -> World:
    """A world of nodes of 8 cards with so many of them free, by rack; a letter a rack's block."""
    nodes: dict[str, int] = {}
    held: dict[str, int] = {}
    fields: dict[str, dict[str, object]] = {}
    for at, (rack, free) in enumerate(racks.items()):
        for i, cards in enumerate(free):
            name = f"{rack}-{i}"
            nodes[name], held[name] = 8, 8 - cards
            fields[name] = {"rack": rack, "block": blocks[at] if blocks else "b"}
    return world(nodes=nodes, held=held, fields=fields, queue=queue)


def names_of(day: World, plan: Plan, id: int) -> list[str]:
    """The nodes a job got, in rank order."""
    name = {node.id: node.name for node in day.nodes}
    return [name[one] for one in nodes_of(plan)[id]]


def islands(*sizes: int, free: tuple[int, ...] = ()) -> Node:
    """A node whose cards lie on islands of these sizes; of each, ``free`` many are free."""
    cards = [
        Gpu(
            id=10 * island + i, uuid=f"G{island}{i}", index=sum(sizes[:island]) + i, model="H100",
            memory_mib=81_920, island=island, free=i < (free or sizes)[island],
            why_not="" if i < (free or sizes)[island] else "held",
        )
        for island, size in enumerate(sizes)
        for i in range(size)
    ]  # fmt: skip
    return node(1, "a", tuple(cards))


def alone(a: Node, *queue: Job) -> World:
    return World(NOW_US, (a,), queue)


def test_two_nodes_in_one_rack_are_taken_before_tighter_ones_in_two() -> None:
    day = racked({"r1": (8, 4), "r2": (4, 8), "r3": (5, 5)}, job(1, gpus=8, nodes=2))

    assert names_of(day, plan(day), 1) == ["r3-0", "r3-1"]


def test_of_the_racks_that_hold_a_job_the_one_it_fills_most_tightly_is_taken() -> None:
    day = racked({"r1": (8, 8, 8), "r2": (4, 4), "r3": (8, 8)}, job(1, gpus=8, nodes=2))

    assert names_of(day, plan(day), 1) == ["r2-0", "r2-1"]


def test_seven_nodes_of_racks_with_3_3_2_and_1_take_3_3_and_1() -> None:
    racks = {"r1": (8, 8), "r2": (8, 8, 8), "r3": (8,), "r4": (8, 8, 8)}
    day = racked(racks, job(1, gpus=56, nodes=7))

    used = [name[:2] for name in names_of(day, plan(day), 1)]
    assert sorted(used) == ["r2"] * 3 + ["r3"] + ["r4"] * 3


def test_of_equally_few_racks_those_in_one_block_are_taken() -> None:
    racks = {"r1": (8, 8), "r2": (8, 8), "r3": (8, 8), "r4": (8, 8)}
    day = racked(racks, job(1, gpus=32, nodes=4), blocks="xyzy")

    assert {name[:2] for name in names_of(day, plan(day), 1)} == {"r2", "r4"}


def test_ranks_run_along_the_topology_so_that_neighbours_are_near() -> None:
    racks = {"s": (8,), "r": (8,), "q": (8,)}
    day = racked(racks, job(1, gpus=24, nodes=3), blocks="bab")

    assert names_of(day, plan(day), 1) == ["r-0", "q-0", "s-0"]


@pytest.mark.parametrize("level", ["node", "rack", "block", "island"])
def test_one_node_is_in_one_node_rack_and_block_and_its_cards_on_one_island(level: str) -> None:
    day = racked({"r1": (8,)}, job(1, gpus=8, level=level, required=True))

    assert placed(plan(day)) == {1: (1, 2, 3, 4, 5, 6, 7, 8)}


def test_eight_cards_with_tp_are_not_scattered_over_four_nodes_with_two_free_each() -> None:
    day = racked({"r1": (2, 2, 2, 2)}, job(1, gpus=8, tp=8))

    assert codes(plan(day)) == {1: ["Fragmented"]}
    assert placed(plan(racked({"r1": (2, 8, 2)}, job(1, gpus=8, tp=8)))) == {
        1: (9, 10, 11, 12, 13, 14, 15, 16)
    }


def test_a_required_rack_is_waited_for_and_said_with_numbers() -> None:
    asked = job(1, gpus=16, nodes=2, level="rack", required=True)
    day = racked({"r1": (8, 4), "r2": (8, 1)}, asked)

    (told,) = why(plan(day), 1)

    assert sentence(told) == (
        "Needs 16 H100 in one rack; at most 12 are free in one. "
        "Without that level it would start now."
    )
    assert ask(day, asked).ways[-1] == Way("topology", "")


def test_a_required_rack_counts_nodes_when_its_cards_lie_in_pieces() -> None:
    asked = job(1, gpus=16, nodes=2, level="rack", required=True)
    day = racked({"r1": (7, 4, 7), "r2": (8, 7, 7)}, asked)

    (told,) = why(plan(day), 1)

    assert sentence(told) == (
        "Needs 2 nodes with 8 free H100 each in one rack; at most 1 is in one."
    )


def test_a_preferred_rack_is_waited_for_so_long_and_then_the_next_level_will_do() -> None:
    asked = job(1, gpus=16, nodes=2, level="rack", submitted_us=NOW_US)
    racks: dict[str, tuple[int, ...]] = {"r1": (8, 0), "r2": (8, 0), "r3": (8, 0), "r4": (8, 0)}
    day = replace(racked(racks, asked, blocks="xyzy"), pools=(Pool(1, climb_us=2 * MINUTE_US),))

    first = plan(day)
    second = plan(replace(day, now_us=NOW_US + 2 * MINUTE_US))

    assert "in one rack; at most 8 are free in one. From 13:48 UTC" in sentence(why(first, 1)[0])
    assert names_of(day, second, 1) == ["r2-0", "r4-0"]
    assert [one.degraded for one in second.placements] == ["block"]


def test_a_preferred_level_that_no_place_could_ever_hold_is_not_waited_for() -> None:
    asked = job(1, gpus=24, nodes=3, level="rack", submitted_us=NOW_US)
    day = racked({"r1": (8, 8), "r2": (8, 8)}, asked)

    (start,) = plan(day).placements

    assert start.degraded == "block"


def test_a_preferred_level_that_was_met_is_not_called_degraded() -> None:
    day = racked({"r1": (8, 8)}, job(1, gpus=16, nodes=2, level="rack"))

    assert [one.degraded for one in plan(day).placements] == [""]


def test_nodes_whose_rack_nobody_named_are_in_no_rack_together() -> None:
    asked = job(1, gpus=16, nodes=2, level="rack", required=True)
    day = world(nodes={"a": 8, "b": 8}, queue=[asked])

    refused = ever(day, asked)

    assert refused is not None
    assert sentence(refused) == (
        "No rack is known that has such nodes. Ask for another level, or none."
    )


REFUSED: list[tuple[dict[str, object], str]] = [
    (
        {"gpus": 24, "nodes": 3, "level": "rack"},
        "Needs 3 nodes in one rack; the most in one is 2. Ask for fewer nodes or a wider level.",
    ),
    (
        {"gpus": 16, "nodes": 2, "level": "node"},
        "A job on 2 nodes cannot be on one node. Ask for one node, or for a rack.",
    ),
    (
        {"gpus": 16, "tp": 16},
        "A tensor-parallel group of 16 has to be on one node, and the largest has 8 H100. "
        "Ask for a tp of 8 or less.",
    ),
    (
        {"gpus": 12, "nodes": 2, "tp": 4},
        "6 cards on each node do not divide into tensor-parallel groups of 4. "
        "The largest tp that would do is 3.",
    ),
    (
        {"capability": 90},
        "No H100 has compute capability 9.0; the highest is 8.0. Ask for that or less.",
    ),
]


@pytest.mark.parametrize(("asked", "words"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_what_no_state_could_hold_is_refused_with_the_largest_that_could(
    asked: dict[str, object], words: str
) -> None:
    day = racked({"r1": (8, 8), "r2": (8, 8)})
    older = [
        replace(one, gpus=tuple(replace(gpu, capability=80) for gpu in one.gpus))
        for one in day.nodes
    ]

    refused = ever(replace(day, nodes=tuple(older)), job(1, **{"required": True, **asked}))

    assert refused is not None
    assert sentence(refused) == words


def test_an_island_too_small_for_a_job_is_said() -> None:
    asked = job(1, gpus=5, level="island", required=True)
    refused = ever(alone(islands(4, 4)), asked)

    assert refused is not None
    assert sentence(refused) == (
        "No island has 5 H100; the largest has 4. Ask for fewer, or for one node."
    )


def test_a_required_island_waits_while_enough_cards_are_free_on_two() -> None:
    asked = job(1, gpus=4, level="island", required=True)

    (told,) = why(plan(alone(islands(4, 4, free=(3, 2)), asked)), 1)

    assert sentence(told) == (
        "Needs 4 H100 on one island of a node; at most 3 are free in one. "
        "Without that level it would start now."
    )


def test_cards_come_from_the_tightest_island_that_holds_them() -> None:
    two_free = islands(4, 4, 4, free=(4, 2, 3))

    assert placed(plan(alone(two_free, job(1, gpus=2)))) == {1: (10, 11)}
    assert placed(plan(alone(two_free, job(1, gpus=3)))) == {1: (20, 21, 22)}


def test_tp_groups_take_islands_that_hold_whole_groups() -> None:
    # The five on island 0 hold one group of four, the three on island 1 none.
    day = alone(islands(6, 6, 4, free=(5, 3, 4)), job(1, gpus=8, tp=4))

    assert placed(plan(day)) == {1: (0, 1, 2, 3, 20, 21, 22, 23)}


def test_a_node_whose_islands_hold_whole_groups_goes_before_a_tighter_one() -> None:
    split = islands(4, 4, free=(1, 3))
    whole = replace(
        islands(4, 4, free=(4, 2)), id=2, name="b",
        gpus=tuple(replace(g, id=g.id + 100) for g in islands(4, 4, free=(4, 2)).gpus),
    )  # fmt: skip
    day = World(NOW_US, (split, whole), (job(1, gpus=4, tp=4),))

    assert placed(plan(day)) == {1: (100, 101, 102, 103)}
    assert placed(plan(replace(day, nodes=(split,)))) == {1: (0, 10, 11, 12)}


def test_room_kept_for_a_required_rack_is_kept_in_one_rack() -> None:
    asked = job(1, gpus=16, nodes=2, level="rack", required=True, limit_us=MINUTE_US)
    small = job(2, gpus=8, limit_us=60 * MINUTE_US)
    day = racked({"r1": (8, 0), "r2": (8, 0)}, asked, small)
    busy = (
        Running(7, 2, tuple(range(9, 17)), 0, 0, 0, NOW_US + 30 * MINUTE_US),
        Running(8, 4, tuple(range(25, 33)), 0, 0, 0, NOW_US + 10 * MINUTE_US),
    )

    decided = plan(replace(day, running=busy, pools=(Pool(1),)))

    # Rack r2 is whole first, so its free node is kept and the small job goes to r1.
    assert nodes_of(decided) == {2: (1,)}


def test_a_least_compute_capability_leaves_older_cards_alone() -> None:
    day = racked({"r1": (8, 8)}, job(1, gpus=1, capability=90))
    first, second = day.nodes
    new = replace(second, gpus=tuple(replace(gpu, capability=90) for gpu in second.gpus))

    assert placed(plan(replace(day, nodes=(first, new)))) == {1: (9,)}
