"""What a cycle costs grows with the nodes and the jobs, not with their product."""

import sys
from dataclasses import replace
from random import Random
from types import FrameType

import pytest

from scheduling.engine.plan import plan
from scheduling.engine.world import Gpu, Job, Limit, Node, Running, Team, World

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


def running(day: World) -> World:
    """The same with every card held by a job of its own, each with another limit."""
    dice = Random(2)  # noqa: S311 - worlds, not secrets
    cards = [(node.id, gpu) for node in day.nodes for gpu in node.gpus]
    held = tuple(
        Running(10**6 + gpu.id, id, (gpu.id,), 1, 1, 0, dice.randrange(10**6, 10**12))
        for id, gpu in cards
    )
    nodes = tuple(
        replace(n, gpus=tuple(replace(g, free=False, why_not="held") for g in n.gpus))
        for n in day.nodes
    )
    jobs = tuple(replace(job, limit_us=dice.randrange(10**9, 10**11)) for job in day.jobs)
    return replace(day, nodes=nodes, running=held, jobs=jobs)


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


def test_the_time_line_costs_about_twice_the_steps_for_twice_the_nodes_and_jobs() -> None:
    days = [running(cluster(1, size, free=1, cpus_free=128, odd=True)) for size in (100, 200)]
    small, large = (steps(day) for day in days)

    assert large / small < 2.7
    assert all(waiting.from_us is not None for waiting in plan(days[0]).waiting if
               waiting.unsure != "never")  # fmt: skip


def test_a_cycle_costs_few_steps_a_node_and_a_job() -> None:
    size = 200
    day = cluster(1, size, free=0.6, cpus_free=128, odd=False)
    assert steps(day) < 950 * (size + len(day.jobs))
