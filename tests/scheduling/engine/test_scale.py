"""What a cycle costs grows with the nodes and the jobs, not with their product."""

import sys
from random import Random
from types import FrameType

import pytest

from scheduling.engine.plan import plan
from scheduling.engine.world import Gpu, Job, Limit, Node, Team, World

TEAMS = 10


def cluster(seed: int, size: int, *, free: float, cpus_free: int, odd: bool) -> World:
    """``size`` nodes of 8 cards, five jobs a node; ``odd``: no two jobs ask the same."""
    dice = Random(seed)  # noqa: S311 - worlds, not secrets
    teams = [Team(1, "all", None)] + [Team(id, f"t{id}", 1) for id in range(2, TEAMS + 2)]
    limits = [Limit(team.id, "", 900_000) for team in teams[1:]]
    return World(
        1,
        tuple(_node(dice, id, free, cpus_free) for id in range(size)),
        tuple(_job(dice, id, odd) for id in range(5 * size)),
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


def steps(day: World) -> int:
    """Lines of Python that one cycle runs: the same on every machine, however busy."""
    count = 0

    def line(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        decided = plan(day)
    finally:
        sys.settrace(before)
    assert len(decided.placements) + len(decided.waiting) == len(day.jobs)
    return count


@pytest.mark.parametrize("odd", [False, True], ids=["usual requests", "no two alike"])
@pytest.mark.parametrize(
    ("free", "cpus_free"), [(0.6, 128), (0.02, 128), (0.9, 4)], ids=["free", "full", "no cores"]
)
def test_twice_the_nodes_and_jobs_cost_about_twice_the_steps(
    free: float, cpus_free: int, odd: bool
) -> None:
    # A look at every node for every job would cost four times as much.
    small, large = (
        steps(cluster(1, size, free=free, cpus_free=cpus_free, odd=odd)) for size in (100, 200)
    )
    assert large / small < 2.7


def test_a_cycle_costs_few_steps_a_node_and_a_job() -> None:
    size = 200
    day = cluster(1, size, free=0.6, cpus_free=128, odd=False)
    assert steps(day) < 650 * (size + len(day.jobs))
