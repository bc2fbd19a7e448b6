"""A cycle over 1,000 nodes of 8 cards and 5,000 pending jobs takes less than a second."""

from random import Random
from time import process_time

import pytest

from scheduling.engine.plan import plan
from scheduling.engine.world import Gpu, Job, Limit, Node, Team, World

NODES, JOBS, TEAMS = 1000, 5000, 10


def cluster(seed: int, *, free: float, cpus_free: int, odd: bool) -> World:
    """A full-size world; ``odd``: no two jobs ask the same CPU, RAM or card memory."""
    dice = Random(seed)  # noqa: S311 - worlds, not secrets
    teams = [Team(1, "all", None)] + [Team(id, f"t{id}", 1) for id in range(2, TEAMS + 2)]
    limits = [Limit(team.id, "", 900_000) for team in teams[1:]]
    return World(
        1,
        tuple(_node(dice, id, free, cpus_free) for id in range(NODES)),
        tuple(_job(dice, id, odd) for id in range(JOBS)),
        tuple(teams),
        tuple(limits),
    )


def _node(dice: Random, id: int, free: float, cpus_free: int) -> Node:
    model = ("H100", "A100")[id % 2]
    cards = tuple(
        Gpu(id * 8 + i, f"GPU-{id}-{i}", i, model, 81_920, dice.random() < free) for i in range(8)
    )
    return Node(id, f"n{id:04}", 1, cards, 128, 2**20, 4000, cpus_free, 2**19, 2000)


def _job(dice: Random, id: int, odd: bool) -> Job:
    gpus = dice.choice([1, 1, 2, 4, 8, 16])
    return Job(
        id,
        team=dice.randrange(2, TEAMS + 2),
        pool=1,
        priority=dice.randrange(3),
        submitted_us=id,
        gpus=gpus,
        nodes=2 if gpus == 16 else 1,
        gpu_model=dice.choice(["", "H100", "A100"]),
        gpu_memory_mib=dice.randrange(80_000) if odd else dice.choice([0, 40_000]),
        cpus=dice.randrange(1, 128 * gpus) if odd else None,
        memory_mib=dice.randrange(1, 2**19) if odd else None,
    )


def took_s(day: World) -> float:
    """CPU seconds of one cycle, the best of three: not what else the machine does."""

    def once() -> float:
        began = process_time()
        decided = plan(day)
        assert len(decided.placements) + len(decided.waiting) == JOBS
        return process_time() - began

    return min(once() for _ in range(3))


@pytest.mark.parametrize("free", [0.6, 0.02], ids=["usual", "full"])
def test_a_full_size_cycle_takes_less_than_a_second(free: float) -> None:
    assert took_s(cluster(1, free=free, cpus_free=128, odd=False)) < 1.0


@pytest.mark.parametrize(
    ("free", "cpus_free"), [(0.6, 128), (0.9, 4)], ids=["cards and cores", "no cores"]
)
def test_requests_that_all_differ_do_not_make_a_cycle_walk_all_nodes_for_each(
    free: float, cpus_free: int
) -> None:
    # Looking at every node for every job would take 5 million looks, some ten seconds.
    assert took_s(cluster(1, free=free, cpus_free=cpus_free, odd=True)) < 2.5
