"""Random small days: nodes with their faults, teams with limits, what runs, bookings, a queue.

A world is made of its seed alone, so a finding can be looked at again. What runs was placed by the
engine itself, so that claims, cards and charges agree. Most things are usual, else nothing would
start; each thing that can keep a job waiting is there often enough to be met.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import TypeVar

from scheduling.engine.plan import plan
from scheduling.engine.world import (
    Booking,
    Gpu,
    Job,
    Limit,
    Node,
    Placement,
    Plan,
    Pool,
    Running,
    Team,
    Use,
    World,
)

T = TypeVar("T")
NOW_US = 1_700_000_000_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND
TEAMS = (Team(1, "lab", None), Team(2, "vision", 1), Team(3, "speech", 1))
IB = (("fabric", "ib"),)


def world_of(seed: int) -> World:
    """A day with something running and something waiting."""
    dice = Random(seed)  # noqa: S311 - worlds, not secrets
    nodes = tuple(_node(dice, id) for id in range(1, dice.choice([2, 3, 4, 4]) + 1))
    pools = tuple(_pool(dice, id) for id in (1, 2))
    morning = World(NOW_US, nodes, tuple(_job(dice, id) for id in range(1, 9)), TEAMS, pools=pools)
    day = carried_out(morning, plan(morning))
    running = tuple(_aged(dice, one) for one in day.running)
    jobs = tuple(_wishing(dice, _job(dice, id)) for id in range(21, 21 + dice.randint(1, 7)))
    return replace(
        day,
        nodes=tuple(_with_faults(dice, node) for node in day.nodes),
        running=running,
        limits=tuple(_limits(dice)),
        bookings=tuple(_bookings(dice, nodes)),
        jobs=jobs,
    )


def carried_out(before: World, decided: Plan) -> World:
    """The world once a plan is carried out: who starts runs, who was asked to leave is leaving."""
    asked = {eviction.job for eviction in decided.evictions}
    jobs = {job.id: job for job in before.jobs}
    parts = [(jobs[p.job], part) for p in decided.placements for part in p.parts]
    running = [
        Running(
            job.id, part.node, part.gpus, part.cpus, part.memory_mib, part.disk_gib,
            None if job.limit_us is None else before.now_us + job.limit_us,
            job.team, job.preemptible, attempt=job.id, priority=job.priority,
            submitted_us=job.submitted_us, since_us=before.now_us, saved_us=before.now_us,
            grace_us=60 * SECOND, user=job.user,
        )
        for job, part in parts
    ]  # fmt: skip
    stays = [
        replace(one, leaving=True, leaves_us=before.now_us + one.grace_us)
        if one.job in asked
        else one
        for one in before.running
    ]
    started = {job.id for job, _ in parts}
    return replace(
        before,
        nodes=tuple(_less(node, decided.placements) for node in before.nodes),
        running=(*stays, *running),
        uses=(*before.uses, *_uses(before, decided.placements)),
        pledges=(*(p for p in before.pledges if p.job not in started), *decided.pledges),
        jobs=tuple(job for job in before.jobs if job.id not in started),
    )


def _less(node: Node, placements: tuple[Placement, ...]) -> Node:
    mine = [part for p in placements for part in p.parts if part.node == node.id]
    gone = {gpu for part in mine for gpu in part.gpus}
    return replace(
        node,
        gpus=tuple(
            replace(g, free=False, why_not="held") if g.id in gone else g for g in node.gpus
        ),
        cpus_free=node.cpus_free - sum(part.cpus for part in mine),
        memory_free_mib=node.memory_free_mib - sum(part.memory_mib for part in mine),
        disk_free_gib=node.disk_free_gib - sum(part.disk_gib for part in mine),
    )


def _uses(world: World, placements: tuple[Placement, ...]) -> Iterator[Use]:
    jobs = {job.id: job for job in world.jobs}
    models = {gpu.id: gpu.model for node in world.nodes for gpu in node.gpus}
    for placement in placements:
        job = jobs[placement.job]
        for part in placement.parts:
            milli = 1000 * len(part.gpus)
            firm = 0 if job.preemptible else milli
            model = models[part.gpus[0]]
            yield Use(job.team, model, milli, part.cpus, part.memory_mib, firm, job.user)


def _usual(dice: Random, usual: T, *others: T) -> T:
    return usual if dice.random() < 0.8 else dice.choice(others)


def _node(dice: Random, id: int) -> Node:
    model = _usual(dice, "A100", "T4")
    cards = tuple(
        Gpu(id * 10 + i, f"GPU-{id}-{i}", i, model, _usual(dice, 80, 40), True)
        for i in range(dice.choice([4, 4, 4, 3, 2]))
    )
    cpus, memory_mib, disk_gib = (dice.choice([16, 16, 12, 8]) for _ in range(3))
    return Node(
        id=id,
        name=f"n{id}",
        pool=_usual(dice, 1, 2),
        gpus=cards,
        cpus=cpus,
        memory_mib=memory_mib,
        disk_gib=disk_gib,
        cpus_free=cpus,
        memory_free_mib=memory_mib,
        disk_free_gib=disk_gib,
        labels=_usual(dice, IB, ()),
    )


def _with_faults(dice: Random, node: Node) -> Node:
    """Some free cards fail or are used from outside; some nodes take no work."""
    gpus = tuple(
        replace(gpu, free=False, why_not=dice.choice(["failed", "foreign", "quarantined"]))
        if gpu.free and dice.random() < 0.08
        else gpu
        for gpu in node.gpus
    )
    works = dice.random() > 0.08
    return replace(node, gpus=gpus, accepts_work=works, why_not="" if works else "drained")


def _job(dice: Random, id: int) -> Job:
    nodes = dice.choice([1, 1, 1, 1, 1, 1, 2])
    odd = 1 if dice.random() < 0.02 else 0
    priority = dice.choice([0, 0, 1]) if id > 20 else 0
    return Job(
        id=id,
        team=dice.choice([2, 2, 3]),
        pool=_usual(dice, 1, 2),
        priority=priority,
        submitted_us=id,
        gpus=nodes * dice.choice([1, 1, 2, 3, 4]) + odd,
        nodes=nodes,
        gpu_model=dice.choice(["", "", "A100", "A100", "T4"]),
        gpu_memory_mib=_usual(dice, 0, 41, 81),
        cpus=_usual(dice, None, nodes, 8 * nodes, 20 * nodes),
        memory_mib=_usual(dice, None, nodes, 5 * nodes),
        disk_gib=_usual(dice, 0, 4, 12),
        labels=_usual(dice, (), IB),
        excluded=_usual(dice, frozenset[int](), frozenset({1})),
        eligible_us=NOW_US + 1_500_000 if dice.random() < 0.05 and id > 20 else 0,
        user=dice.choice(["ann", "ben"]),
        limit_us=_usual(dice, dice.randint(1, 240) * 60 * SECOND, None),
        preemptible=priority == 0 and dice.random() < 0.6,
        may_preempt=priority == 1 and dice.random() < 0.7,
    )


def _wishing(dice: Random, job: Job) -> Job:
    """Some ask for a time, some for the end of others."""
    begin_us = NOW_US + HOUR if dice.random() < 0.06 else 0
    after = (1, 2) if dice.random() < 0.06 else ()
    lost = (3,) if dice.random() < 0.03 else ()
    at_us = max(begin_us, job.eligible_us)
    return replace(job, begin_us=begin_us, eligible_us=at_us, after=after, after_lost=lost)


def _aged(dice: Random, one: Running) -> Running:
    """A claim that has run for a while; one in five is asked to leave already by somebody."""
    since_us = NOW_US - dice.randint(0, 5) * HOUR
    ends_us = None if one.ends_us is None else NOW_US + dice.randint(1, 240) * 60 * SECOND
    return replace(one, since_us=since_us, saved_us=since_us, ends_us=ends_us)


def _pool(dice: Random, id: int) -> Pool:
    return Pool(
        id,
        strict=dice.random() < 0.1,
        depth=dice.choice([1, 1, 1, 0, 2, -1]),
        max_victims=dice.choice([8, 1, 0, 0]),
        max_evicted_percent=dice.choice([800, 100]),
    )


def _limits(dice: Random) -> Iterator[Limit]:
    """None, some of any kind, or a tree whose teams lend to each other."""
    kind = dice.random()
    if kind < 0.3:
        yield from _lending(dice)
    for team in (1, 2, 3):
        if 0.3 <= kind < 0.6 and dice.random() < 0.5:
            milli = dice.choice([None, 2000, 4000, 6000, 8000])
            yield Limit(
                team,
                dice.choice(["", "A100"]),
                milli,
                cpus=_usual(dice, None, 12, 24),
                memory_mib=_usual(dice, None, 12, 24),
                nominal_milli=min(milli or 0, dice.choice([0, 2000, 4000])),
                lending_milli=dice.choice([None, 0, 1000]),
                user_milli=dice.choice([None, None, 1000, 3000]),
            )


def _lending(dice: Random) -> Iterator[Limit]:
    shares = [dice.choice([1000, 2000, 4000]) for _ in range(2)]
    whole = sum(shares)
    yield Limit(1, "", whole, nominal_milli=whole)
    for team, nominal in enumerate(shares, start=2):
        most = dice.choice([None, nominal, nominal + 2000])
        lends = dice.choice([None, None, 1000])
        yield Limit(team, "", most, nominal_milli=nominal, lending_milli=lends)


def _bookings(dice: Random, nodes: tuple[Node, ...]) -> Iterator[Booking]:
    for id in range(1, dice.choice([0, 1, 1, 2, 3]) + 1):
        node = dice.choice(nodes)
        gpus = tuple(gpu.id for gpu in node.gpus if dice.random() < 0.7)
        start_us = NOW_US + dice.randint(2, 120) * 60 * SECOND
        kind = dice.choice(["reservation", "maintenance"])
        if gpus:
            yield Booking(id, gpus, start_us, start_us + HOUR, kind)
