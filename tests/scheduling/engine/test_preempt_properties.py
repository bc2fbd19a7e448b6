"""What holds of every preemption, on floors drawn at random."""

from dataclasses import replace
from itertools import chain, combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.cycle import Cycle
from scheduling.engine.plan import plan
from scheduling.engine.preempt import _grown
from scheduling.engine.trial import Trial
from scheduling.engine.victims import Victim, Victims
from scheduling.engine.world import Job, Pool, Running, World

from .floor import SECOND, Floor
from .worlds import job, world

MINUTE = 60 * SECOND


@st.composite
def floors(draw: st.DrawFn, most: int = 8) -> Floor:
    """Up to three nodes of four cards, running jobs of three classes, a queue of four."""
    nodes = draw(st.integers(1, 3))
    floor = Floor(world(dict.fromkeys("abc"[:nodes], 4)))
    pools = (Pool(1, max_victims=draw(st.integers(1, 8)), max_evicted_percent=800),)
    floor.world = replace(floor.world, pools=pools)
    for id in range(1, draw(st.integers(1, most)) + 1):
        _start(draw, floor, id)
    for id in range(100, 100 + draw(st.integers(1, 4))):
        floor.add(_job(draw, id))
    return floor


def _job(draw: st.DrawFn, id: int) -> Job:
    nodes = draw(st.sampled_from([1, 1, 2]))
    priority = draw(st.sampled_from([-1, 0, 1]))
    return job(
        id,
        gpus=nodes * draw(st.integers(1, 4)),
        nodes=nodes,
        priority=priority,
        may_preempt=priority > -1,
        preemptible=draw(st.booleans()) or priority == -1,
        cpus=draw(st.sampled_from([None, None, 4, 20])),
    )


def _start(draw: st.DrawFn, floor: Floor, id: int) -> None:
    node = draw(st.sampled_from(floor.world.nodes))
    taken = {g for run in floor.runs.values() for part in run.parts for g in part.gpus}
    free = [g.id for g in node.gpus if g.id not in taken]
    if free:
        count = draw(st.integers(1, len(free)))
        since = floor.now_us - draw(st.integers(0, 20)) * MINUTE
        asked = replace(_job(draw, id), gpus=count, nodes=1, cpus=None)
        floor.start(asked, node.id, *free[:count], since_us=since, min_runtime_us=5 * MINUTE)


def _never(_: Running) -> bool:
    return False


def lent(seen: World, winner: Job, victims: list[Victim]) -> bool:
    """Would the job fit if exactly these left (beside what leaves anyway)?"""
    cycle = Cycle(seen)
    trial = Trial(cycle, winner)
    for victim in victims:
        trial.lend(victim)
    return trial.find() is not None


@settings(max_examples=150, deadline=None)
@given(floors(most=12), st.integers(1, 8), st.randoms(use_true_random=False))
def test_a_grown_set_is_needed_to_the_last(floor: Floor, gpus: int, rng: Random) -> None:
    """With many candidates nothing comes after the growing, in whatever order it was done."""
    winner = job(99, gpus=gpus, nodes=2 - gpus % 2, priority=2, may_preempt=True)
    seen = floor.seen()
    order = Victims(seen).of(winner, _never)
    rng.shuffle(order)
    grown = _grown(Trial(Cycle(seen), winner), order)
    if lent(seen, winner, []):
        return
    assert bool(grown) == lent(seen, winner, order)
    assert not grown or lent(seen, winner, grown)
    for victim in grown or ():
        assert not lent(seen, winner, [v for v in grown or () if v is not victim])


@settings(max_examples=150, deadline=None)
@given(floors())
def test_a_set_is_needed_to_the_last_and_the_cheapest_of_all(floor: Floor) -> None:
    first = max(floor.world.jobs, key=lambda one: (one.priority, -one.submitted_us))
    floor.world = replace(floor.world, jobs=(first,))
    seen = floor.seen()
    decided = plan(seen)
    candidates = Victims(seen).of(first, _never)
    chosen = [v for v in candidates if v.attempt in {e.attempt for e in decided.evictions}]
    pool = seen.pools[0]
    assert len(chosen) == len(decided.evictions) <= pool.max_victims
    for victim in chosen:
        assert not lent(seen, first, [v for v in chosen if v is not victim])
    if decided.placements:
        assert not chosen
        return
    sets = chain.from_iterable(combinations(candidates, n) for n in range(len(candidates) + 1))
    working = [
        list(some)
        for some in sets
        if len(some) <= pool.max_victims
        and sum(v.gpus for v in some) <= first.gpus * 8
        and lent(seen, first, list(some))
    ]
    cost = min((sum(v.cost_us for v in some) for some in working), default=None)
    found = sum(v.cost_us for v in chosen) if decided.pledges else None
    assert found == cost


@settings(max_examples=150, deadline=None)
@given(floors(most=12))
def test_whoever_is_evicted_may_be_and_who_it_is_for_has_its_cards(floor: Floor) -> None:
    decided = plan(floor.seen())
    by = {one.id: one for one in floor.world.jobs}
    pledged = [gpu for p in decided.pledges for part in p.parts for gpu in part.gpus]
    placed = [gpu for p in decided.placements for part in p.parts for gpu in part.gpus]
    assert len(set(pledged + placed)) == len(pledged + placed)
    for pledge in decided.pledges:
        assert sum(len(part.gpus) for part in pledge.parts) == by[pledge.job].gpus
    for eviction in decided.evictions:
        run = floor.runs[eviction.job]
        assert run.job.preemptible and run.job.priority < by[eviction.by].priority
        assert floor.now_us - run.since_us >= run.min_runtime_us
        assert any(pledge.job == eviction.by for pledge in decided.pledges)


@settings(max_examples=60, deadline=None)
@given(floors(most=12))
def test_evictions_come_to_an_end_and_victims_never_overtake(floor: Floor) -> None:
    """Nobody comes or ends: after some cycles nothing moves, and no pair was seen twice."""
    for turn in range(200):
        promised = {
            gpu: pledge.job
            for pledge in floor.pledges.values()
            for part in pledge.parts
            for gpu in part.gpus
        }
        decided = floor.cycle()
        for placement in decided.placements:
            for part in placement.parts:
                for gpu in part.gpus:
                    holder = promised.get(gpu, placement.job)
                    assert holder == placement.job or holder in floor.started
        floor.pass_((turn % 7 + 1) * 10 * SECOND)
    assert max(floor.evicted.values(), default=0) <= 1
    assert not floor.cycle().evictions
    assert not floor.pledges


@settings(max_examples=100, deadline=None)
@given(floors(most=12), st.randoms(use_true_random=False))
def test_order_inside_the_world_means_nothing(floor: Floor, rng: Random) -> None:
    floor.cycle()
    floor.pass_(SECOND)
    seen = floor.seen()
    shuffled = seen
    for name in ("nodes", "jobs", "running", "pledges", "pools"):
        items = list(getattr(seen, name))
        rng.shuffle(items)
        shuffled = replace(shuffled, **{name: tuple(items)})
    assert plan(shuffled) == plan(seen)
