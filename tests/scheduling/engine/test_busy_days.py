"""What holds on any day with things running, booked and kept: no order matters, nothing idles."""

from dataclasses import replace
from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from portal.bench import explaining
from portal.bench.worlds import world_of
from scheduling.engine.plan import Turns, plan
from scheduling.engine.world import Job, Node, World

from .days import Day
from .test_heads import S, _story, at
from .worlds import after

SEEDS = st.integers(0, 10**9)


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(0, 10**6))
def test_the_order_of_what_runs_is_booked_or_limited_does_not_matter(seed: int, mix: int) -> None:
    day, dice = world_of(seed), Random(mix)  # noqa: S311 - worlds, not secrets
    mixed = replace(
        day,
        **{  # type: ignore[arg-type]
            name: tuple(dice.sample(getattr(day, name), len(getattr(day, name))))
            for name in ("nodes", "jobs", "teams", "limits", "uses", "running", "bookings", "pools")
        },
    )

    assert repr(plan(mixed)) == repr(plan(day))


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_no_job_waits_for_cards_that_nobody_has_and_that_are_kept_for_nobody(seed: int) -> None:
    story, coming = _story(seed)
    coming = [replace(job, cpus=None) for job in coming]
    early, late = coming[: len(coming) // 2], coming[len(coming) // 2 :]
    day = Day(replace(story.world, now_us=at(30), jobs=tuple(early)))
    day.cycle()
    day.add(*late)
    seen = replace(day.seen(), now_us=at(31))

    turns = Turns(seen)
    for job in turns.queue:
        turns.take(job)
    evening = after(seen, plan(seen))

    time = turns.cycle.stock.time
    kept = {
        (node, gpu.id): promise.start_us
        for node, found in time.promises.items()
        for promise in found
        for bit, gpu in enumerate(time.cards(node))
        if promise.mask >> bit & 1
    }
    idle = [job.id for job in evening.jobs if _could_start(evening, job, kept)]
    assert idle == []


def _could_start(evening: World, job: Job, kept: dict[tuple[int, int], int]) -> bool:
    each = job.gpus // job.nodes
    roomy = [node for node in evening.nodes if _usable(evening, node, job, kept) >= each]
    return any(combinations(roomy, job.nodes))


def _usable(evening: World, node: Node, job: Job, kept: dict[tuple[int, int], int]) -> int:
    assert job.limit_us is not None
    end_us = evening.now_us + job.limit_us
    return sum(gpu.free and kept.get((node.id, gpu.id), end_us) >= end_us for gpu in node.gpus)


def test_what_waiting_jobs_are_told_is_true_in_random_worlds() -> None:
    results = explaining.run(80, seed=70_000, say=lambda text: None)["results"]

    assert results["wrong"] == []
    assert results["priority_without_ids"] == 0
    assert results["reasons"] > 300
    assert results["ways"] > 30


def test_small_jobs_of_low_priority_start_when_those_of_higher_priority_leave_room() -> None:
    # Four cards; a stream of larger, more urgent jobs; the small one fits beside each of them.
    story = Day(replace(_story(1)[0].world, jobs=()))
    nodes = tuple(replace(n, gpus=n.gpus[:4]) for n in story.world.nodes[:1])
    day = Day(replace(story.world, nodes=nodes))
    cards = len(nodes[0].gpus)
    stream = [Job(i, 1, 1, 5, at(i), max(1, cards - 1), limit_us=10 * S) for i in range(2, 40)]
    small = Job(1, 1, 1, 0, at(1), 1, limit_us=5 * S)

    day.run([small, *stream], until=lambda now: 1 in now.started)

    assert day.started[1] <= at(1) + 10 * S
