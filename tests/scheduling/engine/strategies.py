"""Small random worlds for properties: few nodes, two models, a tree of teams, odd requests.

A world is made of one seed, so a failure names it; most things are usual, else nothing would start.
"""

from random import Random
from typing import Any

from hypothesis import strategies as st

from scheduling.engine.world import Gpu, Job, Limit, Node, Team, Use, World

from .worlds import NOW_US

TEAMS = (Team(1, "lab", None), Team(2, "vision", 1), Team(3, "speech", 1))
IB = (("fabric", "ib"),)
SEEDS = st.integers(0, 10**12)


def worlds(max_jobs: int = 8) -> st.SearchStrategy[World]:
    """Worlds of at most 4 nodes with at most 4 cards each."""
    return SEEDS.map(lambda seed: world_of(seed, max_jobs))


def world_of(seed: int, max_jobs: int) -> World:
    dice = Random(seed)  # noqa: S311 - worlds, not secrets
    limits = {(limit.team, limit.gpu_model): limit for limit in (_limit(dice) for _ in range(2))}
    return World(
        now_us=NOW_US,
        nodes=tuple(_node(dice, id) for id in range(1, dice.choice([4, 4, 3, 2, 1]) + 1)),
        jobs=tuple(_job(dice, id) for id in range(1, dice.randint(1, max_jobs) + 1)),
        teams=TEAMS,
        limits=tuple(limits.values()) if dice.random() < 0.6 else (),
        uses=tuple(_use(dice) for _ in range(dice.randint(0, 2))),
    )


def _usual(dice: Random, usual: Any, *others: Any) -> Any:
    return usual if dice.random() < 0.8 else dice.choice(others)


def _node(dice: Random, id: int) -> Node:
    model = _usual(dice, "A100", "T4")
    cards = [
        Gpu(
            id=id * 10 + i,
            uuid=f"GPU-{id}-{i}",
            index=i,
            model=_usual(dice, model, "A100", "T4"),
            memory_mib=_usual(dice, 80, 40),
            free=not why_not,
            why_not=why_not,
        )
        for i in range(dice.choice([4, 4, 4, 3, 2, 1, 0]))
        for why_not in [_usual(dice, "", "held", "held", "failed", "foreign", "releasing")]
    ]
    totals = [dice.choice([16, 16, 16, 8, 5]) for _ in range(3)]
    left = [_usual(dice, total, total // 2, 1, 0) for total in totals]
    return Node(
        id,
        _usual(dice, f"n{id}", "a", "b"),
        _usual(dice, 1, 2),
        tuple(cards),
        *totals,
        *left,
        labels=_usual(dice, IB, ()),
        accepts_work=_usual(dice, True, False),
        why_not=dice.choice(["", "drained"]),
        penalty=dice.randint(0, 1),
    )


def _job(dice: Random, id: int) -> Job:
    nodes = dice.choice([1, 1, 1, 2, 2, 3])
    odd = 1 if dice.random() < 0.05 else 0
    return Job(
        id=id,
        team=dice.choice([2, 2, 3, 1]),
        pool=_usual(dice, 1, 2),
        priority=dice.randint(0, 1),
        submitted_us=dice.randint(0, 2),
        gpus=nodes * dice.choice([1, 1, 2, 3, 4]) + odd,
        nodes=nodes,
        gpu_model=dice.choice(["", "", "A100", "A100", "T4", "V100"]),
        gpu_memory_mib=_usual(dice, 0, 41, 41, 81),
        cpus=_usual(dice, None, 0, 3, 8),
        memory_mib=_usual(dice, None, 0, 5),
        disk_gib=_usual(dice, 0, 4),
        labels=_usual(dice, (), IB),
        excluded=_usual(dice, frozenset(), frozenset({1}), frozenset({2, 3})),
        eligible_us=_usual(dice, 0, 0, NOW_US + 1_500_000),
        user=dice.choice(["", "ann", "ben"]),
        preemptible=dice.choice([False, True]),
    )


def _limit(dice: Random) -> Limit:
    return Limit(
        team=dice.choice([1, 2, 3]),
        gpu_model=dice.choice(["", "A100", "T4"]),
        milli=dice.choice([None, 0, 2500, 4000, 8000]),
        cpus=_usual(dice, None, 4, 12, 30),
        memory_mib=_usual(dice, None, 4, 12, 30),
        nominal_milli=_usual(dice, 0, 1000, 3000, 4000),
        lending_milli=_usual(dice, None, 0, 1000),
        user_milli=_usual(dice, None, 1000, 2000),
    )


def _use(dice: Random) -> Use:
    return Use(
        team=dice.choice([2, 3]),
        gpu_model=dice.choice(["A100", "T4"]),
        milli=dice.choice([500, 1000, 3000]),
        cpus=dice.randint(0, 3),
        memory_mib=dice.randint(0, 3),
        firm_milli=dice.choice([0, 0, 500]),
        user=dice.choice(["", "ann", "ben"]),
    )
