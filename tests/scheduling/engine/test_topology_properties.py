"""What holds of places in every world, tried on small random ones against brute force."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from random import Random

from hypothesis import given, settings

from scheduling.engine.plan import plan
from scheduling.engine.world import Gpu, Job, Node, Placement, Pool, Reason, Waiting, World

from . import oracle
from .strategies import SEEDS
from .worlds import NOW_US, after

tried = settings(max_examples=150, deadline=None)
LEVELS = ("island", "node", "rack", "block")


def lands(seed: int, jobs: int) -> World:
    """Six to eight nodes of one model in racks and blocks, some without a name."""
    dice = Random(seed)  # noqa: S311 - worlds, not secrets
    nodes = tuple(_node(dice, id) for id in range(1, dice.randint(5, 7) + 1))
    pools = (Pool(1, depth=0, climb_us=100),)
    asked = tuple(_job(dice, id) for id in range(1, jobs + 1))
    return World(NOW_US, nodes, asked, pools=pools)


def _node(dice: Random, id: int) -> Node:
    cards = tuple(
        Gpu(
            id * 10 + i, f"G{id}{i}", i, "H100", 80, free=free, why_not="" if free else "held",
            island=i // 2,
        )
        for i in range(4)
        for free in [dice.random() < 0.75]
    )  # fmt: skip
    rack, block = dice.choice(["", "p", "q", "r"]), dice.choice(["", "x", "y"])
    return Node(id, f"n{id}", 1, cards, 16, 16, 16, 16, 16, 16, rack=rack, block=block)


def _job(dice: Random, id: int) -> Job:
    nodes = dice.choice([1, 1, 2, 3, 4])
    per_node = dice.choice([1, 2, 2, 4])
    level = dice.choice(["", "", *LEVELS])
    return Job(
        id, 1, 1, 0, NOW_US - dice.choice([0, 150, 250, 900]), nodes * per_node, nodes,
        level=level, required=bool(level) and dice.random() < 0.6,
        tp=dice.choice([size for size in (1, 1, 2, 4) if per_node % size == 0]),
    )  # fmt: skip


def racks(nodes: tuple[Node, ...]) -> int:
    return len({(n.block, n.rack) if n.rack else n.id for n in nodes})


def blocks(nodes: tuple[Node, ...]) -> int:
    def block(n: Node) -> object:
        return n.block or (("", n.rack) if n.rack else n.id)

    return len({block(n) for n in nodes})


def shares(nodes: tuple[Node, ...], level: str) -> bool:
    """Whether several nodes lie in one place of a level."""
    if level == "rack":
        return racks(nodes) == 1
    if level == "block":
        return racks(nodes) == 1 or (
            len({n.block for n in nodes} | {""}) == 2 and all(n.block for n in nodes)
        )
    return level == ""


def free_on(node: Node) -> list[list[Gpu]]:
    """The free cards of each island."""
    return [[g for g in node.gpus if g.free and g.island == island] for island in (0, 1)]


def sets(day: World, job: Job) -> Iterator[tuple[Node, ...]]:
    """The sets of nodes on which a job could start if it had no level."""
    for nodes in combinations(day.nodes, job.nodes):
        if all(oracle.has_room(node, job, "H100") for node in nodes):
            yield nodes


def good(day: World, job: Job) -> Iterator[tuple[Node, ...]]:
    """Those that share the level it requires."""
    for nodes in sets(day, job):
        if len(nodes) > 1 and shares(nodes, job.level):
            yield nodes
        if len(nodes) == 1 and (
            job.level != "island" or max(map(len, free_on(nodes[0]))) >= job.gpus
        ):
            yield nodes


def got(day: World, start: Placement) -> tuple[Node, ...]:
    by_id = {node.id: node for node in day.nodes}
    return tuple(by_id[part.node] for part in start.parts)


@tried
@given(SEEDS)
def test_a_required_level_holds(seed: int) -> None:
    day = lands(seed, 4)
    jobs = {job.id: job for job in day.jobs}

    for start in plan(day).placements:
        job, nodes = jobs[start.job], got(day, start)
        if not job.required:
            continue
        if len(nodes) > 1:
            assert shares(nodes, job.level)
        elif job.level == "island":
            used = {g.island for g in nodes[0].gpus if g.id in start.parts[0].gpus}
            assert len(used) == 1


@tried
@given(SEEDS)
def test_a_job_takes_the_fewest_racks_and_of_those_the_fewest_blocks(seed: int) -> None:
    day = lands(seed, 1)
    day = replace(day, jobs=(replace(day.jobs[0], tp=1, required=True),))
    (job,) = day.jobs
    choices = [(racks(nodes), blocks(nodes)) for nodes in good(day, job)]

    found = [got(day, start) for start in plan(day).placements]

    assert [(racks(one), blocks(one)) for one in found] == ([min(choices)] if choices else [])


@tried
@given(SEEDS)
def test_a_job_that_could_lie_on_one_rack_takes_the_one_it_fills_most_tightly(seed: int) -> None:
    day = lands(seed, 1)
    day = replace(day, jobs=(replace(day.jobs[0], tp=1, level="rack", required=True),))
    (job,) = day.jobs
    left = [sum(sum(g.free for g in n.gpus) for n in nodes) for nodes in good(day, job)]

    found = [got(day, start) for start in plan(day).placements]

    assert [sum(sum(g.free for g in n.gpus) for n in one) for one in found] == (
        [min(left)] if left else []
    )


@tried
@given(SEEDS)
def test_no_tp_group_lies_on_two_islands_while_a_place_keeps_them_whole(seed: int) -> None:
    day = lands(seed, 1)
    day = replace(day, jobs=(replace(day.jobs[0], level="", required=False),))
    (job,) = day.jobs

    def whole(node: Node) -> bool:
        kept = sum(len(free) // job.tp * job.tp for free in free_on(node))
        return kept >= job.gpus // job.nodes

    could = any(all(whole(node) for node in nodes) for nodes in sets(day, job))
    for start in plan(day).placements:
        groups = [
            {g.island for g in node.gpus if g.id in group}
            for node, part in zip(got(day, start), start.parts, strict=True)
            for group in _groups(node, part.gpus, job.tp)
        ]
        assert not could or all(len(one) == 1 for one in groups)


def _groups(node: Node, gpus: tuple[int, ...], tp: int) -> list[tuple[int, ...]]:
    """Cards in the order of ranks (island, index), cut into groups."""
    ranked = sorted((g for g in node.gpus if g.id in gpus), key=lambda g: (g.island, g.index))
    return [tuple(g.id for g in ranked[i : i + tp]) for i in range(0, len(ranked), tp)]


@tried
@given(SEEDS)
def test_neighbours_in_rank_are_as_near_as_any_order_makes_them(seed: int) -> None:
    day = lands(seed, 2)
    dice = Random(seed)  # noqa: S311 - worlds, not secrets

    for start in plan(day).placements:
        nodes = got(day, start)
        mixed = tuple(dice.sample(nodes, len(nodes)))
        assert _far(nodes) <= _far(mixed)


def _far(nodes: tuple[Node, ...]) -> int:
    """How many levels the hops from each rank to the next climb."""
    pairs = list(pairwise(nodes))
    return sum(racks(pair) - 1 + 2 * (len({n.block for n in pair}) - 1) for pair in pairs)


@tried
@given(SEEDS)
def test_the_order_of_the_input_does_not_matter(seed: int) -> None:
    day = lands(seed, 4)
    dice = Random(seed)  # noqa: S311 - worlds, not secrets
    mixed = replace(
        day,
        nodes=tuple(
            replace(node, gpus=tuple(dice.sample(node.gpus, len(node.gpus))))
            for node in dice.sample(day.nodes, len(day.nodes))
        ),
        jobs=tuple(dice.sample(day.jobs, len(day.jobs))),
    )

    assert repr(plan(mixed)) == repr(plan(day))


@tried
@given(SEEDS)
def test_no_job_waits_that_fits_where_it_may_lie(seed: int) -> None:
    day = lands(seed, 4)
    decided = plan(day)
    evening = after(day, decided)

    for job in evening.jobs:
        assert not job.required or not any(good(evening, job))
        assert job.level or not any(sets(evening, job))


@tried
@given(SEEDS)
def test_reasons_are_true_mend_what_they_name_and_the_job_starts(seed: int) -> None:
    day = lands(seed, 4)
    decided = plan(day)
    evening = after(day, decided)
    jobs = {job.id: job for job in evening.jobs}

    for waiting in decided.waiting:
        alone = replace(evening, jobs=(jobs[waiting.job],))
        mended = _mended(alone, waiting)
        assert waiting.reasons
        never = any(reason.code == "NeverFits" for reason in waiting.reasons)
        assert bool(plan(mended).placements) is not never, waiting


def _mended(day: World, waiting: Waiting) -> World:
    for reason in waiting.reasons:
        numbers = dict(reason.numbers)
        if reason.code == "Topology" and numbers["loose"]:
            day = replace(day, jobs=(replace(day.jobs[0], level="", required=False),))
        elif reason.code in ("Topology", "Resources", "Fragmented"):
            day = replace(day, nodes=tuple(_whole(node, reason) for node in day.nodes))
    return day


def _whole(node: Node, reason: Reason) -> Node:
    back = sum(not gpu.free for gpu in node.gpus) * 4
    return replace(
        node,
        gpus=tuple(replace(gpu, free=True) for gpu in node.gpus),
        cpus_free=min(node.cpus, node.cpus_free + back),
        memory_free_mib=min(node.memory_mib, node.memory_free_mib + back),
    )
