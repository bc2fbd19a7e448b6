"""What was lent is taken back: cohorts told as small floors, and the end of all taking back."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.world import Job, Limit, Team

from .floor import SECOND, Floor, victims
from .worlds import codes, job, placed, world

LAB = 9


def cohort(cards: int, nominal: dict[int, int], teams: tuple[Team, ...] = ()) -> Floor:
    """One node, a root with all its cards, and teams below it with a nominal; no one's limit."""
    below = teams or tuple(Team(id, f"t{id}", LAB) for id in nominal)
    limits = [Limit(LAB, "", cards * 1000, nominal_milli=cards * 1000)]
    limits += [Limit(id, "", None, nominal_milli=own * 1000) for id, own in nominal.items()]
    floor = Floor(world({"a": cards}, teams=(Team(LAB, "lab", None), *below)))
    floor.world = replace(floor.world, limits=tuple(limits))
    return floor


def lent(id: int, team: int, gpus: int = 1, **fields: object) -> Job:
    """Work that may be taken back."""
    return job(id, team=team, gpus=gpus, **{"preemptible": True, **fields})  # type: ignore[arg-type]


def run(floor: Floor, *jobs: Job) -> None:
    """Let jobs run on the next cards of the node."""
    first = 1 + sum(len(part.gpus) for one in floor.runs.values() for part in one.parts)
    for one in jobs:
        floor.start(one, 1, *range(first, first + one.gpus))
        first += one.gpus


def test_what_is_owed_is_taken_back_once_however_the_borrowers_leave() -> None:
    floor = cohort(8, {1: 5, 2: 3})
    floor.leave_us = {2: SECOND, 3: 60 * SECOND}
    run(floor, lent(1, 2, 3, priority=50), lent(2, 2, 2), lent(3, 2, 2))
    floor.add(job(4, team=1, gpus=5))
    decided = floor.cycle()
    assert victims(decided) == [2, 3]
    assert {eviction.why for eviction in decided.evictions} == {"reclaim"}
    for _ in range(61):
        floor.pass_(SECOND)
        floor.cycle()
    assert floor.started == [4]
    assert sum(floor.evicted.values()) == 2
    assert {one.id for one in floor.world.jobs} == {2, 3}


def test_a_job_that_is_owed_nothing_takes_nothing_back() -> None:
    floor = cohort(3, {1: 3, 2: 0})
    run(floor, lent(1, 2))
    floor.add(job(2, team=1, gpus=4), job(3, team=1, gpus=3))
    decided = floor.cycle()
    assert codes(decided)[2][0] == "NeverFits"
    assert victims(decided) == [1]
    for _ in range(70):
        floor.pass_(SECOND)
        floor.cycle()
    assert floor.started == [3]
    assert sum(floor.evicted.values()) == 1


def test_two_that_are_owed_take_back_once_each_and_start() -> None:
    # What is owed belongs to the team above: its member has no nominal of its own.
    teams = (
        Team(1, "guaranteed", LAB),
        Team(2, "g", 1),
        Team(3, "be-a", LAB),
        Team(4, "be-b", LAB),
    )
    floor = cohort(6, {1: 6}, teams)
    run(floor, lent(1, 3, 2), lent(2, 3, 2), lent(3, 4), lent(4, 4))
    floor.add(job(5, team=2))
    assert victims(floor.cycle()) == [4]
    floor.pass_(60 * SECOND)
    floor.cycle()
    floor.add(job(6, team=2, gpus=2))
    for _ in range(200):
        floor.cycle()
        floor.pass_(SECOND)
    assert floor.started == [5, 6]
    assert sum(floor.evicted.values()) == 2
    assert 4 not in floor.runs


def test_as_much_is_taken_back_as_was_borrowed_and_no_more() -> None:
    floor = cohort(8, {1: 4, 2: 4})
    run(floor, *(lent(id, 1, 2) for id in range(1, 5)))
    floor.add(job(9, team=2, gpus=4))
    assert victims(floor.cycle()) == [3, 4]
    floor.pass_(60 * SECOND)
    floor.cycle()
    floor.add(job(10, team=2, gpus=1))
    for _ in range(100):
        floor.cycle()
        floor.pass_(SECOND)
    assert sorted(floor.runs) == [1, 2, 9]
    assert sum(floor.evicted.values()) == 2


def test_a_branch_within_its_own_is_passed_over_for_a_sister_that_borrows() -> None:
    teams = (
        Team(1, "org", LAB),
        Team(2, "reclaimer", 1),
        Team(3, "batch", 1),
        Team(4, "protected", LAB),
    )
    floor = cohort(12, {1: 6, 2: 6, 3: 0, 4: 6}, teams)
    run(floor, *(lent(id, 4, priority=-9) for id in range(1, 7)), lent(7, 3, 3), lent(8, 2, 3))
    floor.add(job(9, team=2, gpus=3))
    assert victims(floor.cycle()) == [7]


def test_firm_work_and_work_within_its_nominal_stay() -> None:
    floor = cohort(4, {1: 2, 2: 2})
    run(floor, job(1, team=2, gpus=1), lent(2, 2), lent(3, 1))
    floor.add(job(4, team=1, gpus=2))
    assert victims(floor.cycle()) == []
    floor.end(3)
    assert placed(floor.cycle()) == {4: (3, 4)}


@st.composite
def cohorts(draw: st.DrawFn) -> Floor:
    own = {1: draw(st.integers(0, 4)), 2: draw(st.integers(0, 4))}
    own[3] = 8 - own[1] - own[2]
    floor = cohort(8, own)
    for id in range(1, draw(st.integers(3, 8))):
        floor.add(
            lent(
                id,
                draw(st.integers(1, 3)),
                draw(st.integers(1, 4)),
                priority=draw(st.sampled_from([0, 0, 1])),
                may_preempt=draw(st.booleans()),
                preemptible=draw(st.integers(0, 3)) > 0,
            )
        )
    return floor


@settings(max_examples=60, deadline=None)
@given(cohorts(), st.data())
def test_taking_back_comes_to_an_end(floor: Floor, data: st.DataObject) -> None:
    """Jobs come one by one; then nobody comes or ends: evictions cease, no pair is seen twice."""
    coming = list(floor.world.jobs)
    floor.world = replace(floor.world, jobs=())
    while coming:
        floor.add(coming.pop(data.draw(st.integers(0, len(coming) - 1))))
        floor.cycle()
        floor.pass_(data.draw(st.sampled_from([SECOND, 400 * SECOND])))
    for turn in range(40):
        floor.cycle()
        floor.pass_((turn % 7 + 1) * 100 * SECOND)
    assert max(floor.evicted.values(), default=0) <= 1
    assert not floor.cycle().evictions
    assert not floor.pledges
