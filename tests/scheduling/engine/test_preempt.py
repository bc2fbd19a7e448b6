"""Preemption told as small floors: who leaves for whom, what is kept, what is refused."""

from dataclasses import replace

from scheduling.engine.explain import sentence
from scheduling.engine.world import Job, Limit, Pool, Team

from .floor import SECOND, Floor, victims
from .worlds import codes, job, nodes_of, placed, why, world

MINUTE = 60 * SECOND


def low(id: int, **fields: object) -> Job:
    return job(id, **{"priority": -100, "preemptible": True, **fields})  # type: ignore[arg-type]


def high(id: int, **fields: object) -> Job:
    return job(id, **{"priority": 100, "may_preempt": True, **fields})  # type: ignore[arg-type]


def test_the_cheapest_victim_leaves_and_its_cards_wait_for_the_winner() -> None:
    floor = Floor(world({"a": 4}))
    floor.start(low(1, gpus=2), 1, 1, 2, since_us=floor.now_us - 60 * MINUTE)
    floor.start(low(2, gpus=2), 1, 3, 4, since_us=floor.now_us - 5 * MINUTE)
    floor.add(high(3, gpus=2), low(4, gpus=2))
    decided = floor.cycle()
    assert victims(decided) == [2]
    assert [p.parts[0].gpus for p in decided.pledges] == [(3, 4)]
    told = why(decided, 3)
    assert [one.code for one in told] == ["AwaitingPreemption"]
    assert sentence(told[0]) == "2 GPUs of job 2 on a leave by 13:47:40 UTC, then it starts."
    floor.pass_(60 * SECOND)
    assert placed(floor.cycle()) == {3: (3, 4)}
    assert floor.pledges == {}
    # Who left is behind whom it left for, and behind nobody of its own who came later.
    floor.end(3)
    assert placed(floor.cycle()) == {2: (3, 4)}


def test_what_was_saved_makes_a_victim_cheap() -> None:
    floor = Floor(world({"a": 2}))
    hour = floor.now_us - 60 * MINUTE
    floor.start(low(1), 1, 1, since_us=hour, saved_us=floor.now_us - MINUTE)
    floor.start(low(2), 1, 2, since_us=floor.now_us - 10 * MINUTE)
    floor.add(high(3))
    assert victims(floor.cycle()) == [1]


def test_of_equal_victims_the_youngest_goes_and_comes_back_first() -> None:
    # Two slots, three equal jobs, a higher one: the second leaves and returns before the third.
    floor = Floor(world({"a": 2}))
    floor.add(low(1), low(2), low(3))
    floor.cycle()
    floor.add(high(4))
    assert victims(floor.cycle()) == [2]
    floor.pass_(60 * SECOND)
    floor.cycle()
    floor.end(4)
    floor.cycle()
    assert floor.started == [1, 2, 4, 2]


def test_free_cards_and_a_victims_node_are_combined_for_a_gang() -> None:
    floor = Floor(world({"a": 8, "b": 8}))
    floor.start(low(1, gpus=8), 2, *range(9, 17))
    floor.add(high(2, gpus=16, nodes=2))
    assert victims(floor.cycle()) == [1]
    floor.add(low(3, gpus=8))
    floor.cycle()
    # The free node is kept for the gang while the other is on its way.
    assert floor.started == []
    floor.pass_(60 * SECOND)
    assert nodes_of(floor.cycle()) == {2: (1, 2)}


def test_nobody_leaves_for_a_job_that_could_not_start_then() -> None:
    over_limit = (Team(1, "vision", None),), (Limit(1, "", 4000),)
    floor = Floor(world({"a": 8}, teams=(*over_limit[0], Team(2, "speech", None))))
    floor.world = replace(floor.world, limits=over_limit[1])
    floor.start(low(1, gpus=8, team=2), 1, *range(1, 9))
    floor.add(high(2, gpus=8), high(3, gpus=8, cpus=999, team=2))
    decided = floor.cycle()
    assert victims(decided) == [] and decided.pledges == ()
    assert codes(decided)[2] == ["QuotaLimit", "Resources"]


def test_a_team_at_its_limit_takes_back_from_its_own() -> None:
    floor = Floor(world({"a": 8}, limits=(Limit(1, "", 4000),)))
    floor.start(low(1, gpus=4), 1, 1, 2, 3, 4)
    floor.add(high(2, gpus=4))
    assert victims(floor.cycle()) == [1]


def test_who_must_not_be_preempted_stays() -> None:
    floor = Floor(world({"a": 5}))
    floor.start(job(1, priority=-100), 1, 1)
    floor.start(low(2, priority=100), 1, 2)
    floor.start(low(3), 1, 3, min_runtime_us=10 * MINUTE, since_us=floor.now_us - MINUTE)
    floor.start(low(4), 1, 4, since_us=floor.now_us - MINUTE)
    floor.evicted[4, 99] = 1
    floor.evicted_us[4] = floor.now_us - 2 * MINUTE
    floor.start(low(5), 1, 5)
    floor.evicted[5, 99] = 10
    floor.add(high(6))
    assert victims(floor.cycle()) == []
    floor.pass_(9 * MINUTE)
    # Now the one has run long enough, and the other was left alone long enough: it is cheaper
    # by as much as it started later, not by its number.
    assert victims(floor.cycle()) == [4]


def test_a_job_that_may_not_preempt_waits() -> None:
    floor = Floor(world({"a": 1}))
    floor.start(low(1), 1, 1)
    floor.add(job(2, priority=100))
    assert victims(floor.cycle()) == []


def test_more_victims_than_the_pool_allows_are_none_and_it_is_said() -> None:
    floor = Floor(world({"a": 9}))
    for card in range(1, 10):
        floor.start(low(card), 1, card)
    floor.add(high(20, gpus=9))
    decided = floor.cycle()
    assert victims(decided) == []
    assert sentence(why(decided, 20)[-1]) == (
        "It would have to stop 9 running jobs, and this pool allows 8 at once. "
        "Ask for fewer cards, or wait until jobs end."
    )
    floor.world = replace(floor.world, pools=(Pool(1, max_victims=9),))
    assert len(victims(floor.cycle())) == 9


def test_a_large_victim_is_not_stopped_for_a_small_job_beyond_the_pools_measure() -> None:
    floor = Floor(world({"a": 8}, fields={"a": {}}))
    floor.world = replace(floor.world, pools=(Pool(1, max_evicted_percent=400),))
    floor.start(low(1, gpus=8), 1, *range(1, 9))
    floor.add(high(2))
    decided = floor.cycle()
    assert victims(decided) == []
    assert sentence(why(decided, 2)[-1]) == (
        "It would have to stop jobs with 8 GPUs for the 1 it asks for, and this pool allows 4. "
        "Wait until jobs end."
    )
    floor.add(high(3, gpus=2))
    assert victims(floor.cycle()) == [1]


def test_what_leaves_anyway_is_taken_before_anybody_else_is_asked() -> None:
    floor = Floor(world({"a": 4}))
    floor.start(low(1, gpus=4), 1, 1, 2, 3, 4)
    floor.add(high(2, gpus=2))
    floor.cycle()
    # Two cards more leave with the victim: the next job is pledged them, and nobody is asked.
    floor.add(high(3, gpus=2))
    decided = floor.cycle()
    assert victims(decided) == [] and [p.job for p in decided.pledges] == [3]
    floor.pass_(60 * SECOND)
    floor.cycle()
    assert sorted(floor.started) == [2, 3]


def test_desynchronised_exits_evict_once_and_the_victims_wait() -> None:
    # One victim leaves after a second, the other after a minute; nobody slips in between.
    floor = Floor(world({"a": 8}), leave_us={2: SECOND, 3: 60 * SECOND})
    floor.start(low(1, gpus=3, priority=-50), 1, 1, 2, 3)
    floor.start(low(2, gpus=2), 1, 4, 5)
    floor.start(low(3, gpus=2), 1, 6, 7)
    floor.add(high(4, gpus=5))
    assert victims(floor.cycle()) == [2, 3]
    for _ in range(60):
        floor.pass_(SECOND)
        floor.cycle()
    assert sum(floor.evicted.values()) == 2
    assert floor.started == [4]
    assert {one.id for one in floor.world.jobs} == {2, 3}


def test_two_gangs_leave_for_one_and_no_more() -> None:
    floor = Floor(world({"a": 8}))
    for id in range(4):
        floor.start(low(id + 1, gpus=2), 1, 2 * id + 1, 2 * id + 2)
    floor.add(high(9, gpus=4))
    assert victims(floor.cycle()) == [3, 4]
    floor.pass_(60 * SECOND)
    floor.cycle()
    assert len(floor.runs) == 3
    floor.end(9)
    floor.add(high(10, gpus=3))
    for _ in range(100):
        floor.pass_(SECOND)
        floor.cycle()
    assert sum(floor.evicted.values()) == 2
    assert sorted(floor.runs) == [1, 2, 10]


def test_eight_victims_leave_for_eight_cards_of_twelve() -> None:
    floor = Floor(world({"a": 12}))
    for card in range(1, 13):
        floor.start(low(card), 1, card)
    floor.add(high(20, gpus=8))
    assert victims(floor.cycle()) == [5, 6, 7, 8, 9, 10, 11, 12]


def test_a_pledge_falls_with_its_card_and_its_node_and_another_victim_is_found() -> None:
    floor = Floor(world({"a": 1, "b": 1}))
    floor.start(low(1), 1, 1, since_us=floor.now_us - MINUTE)
    floor.start(low(2), 2, 2, since_us=floor.now_us - 2 * MINUTE)
    floor.add(high(3))
    assert victims(floor.cycle()) == [1]
    a, b = floor.world.nodes
    floor.world = replace(floor.world, nodes=(replace(a, accepts_work=False, why_not="lost"), b))
    decided = floor.cycle()
    assert [f.why for f in decided.fallen] == ["a takes no work (lost)"]
    assert victims(decided) == [2]
    sick = replace(b.gpus[0], free=False, why_not="failed")
    floor.world = replace(floor.world, nodes=(a, replace(b, gpus=(sick,))))
    decided = floor.cycle()
    assert [f.why for f in decided.fallen] == ["a card on b is failed"]
    # The first one's card, still on its way, is what it is pledged now.
    assert [p.parts[0].gpus for p in decided.pledges] == [(1,)]


def test_a_winner_starts_elsewhere_when_that_is_sooner() -> None:
    floor = Floor(world({"a": 1, "b": 1}))
    floor.start(job(1), 2, 2)
    floor.start(low(2), 1, 1)
    floor.add(high(3))
    assert victims(floor.cycle()) == [2]
    floor.end(1)
    decided = floor.cycle()
    assert placed(decided) == {3: (2,)}
    assert floor.pledges == {}
    floor.pass_(60 * SECOND)
    assert placed(floor.cycle()) == {2: (1,)}


def test_a_pledge_of_a_job_that_waits_no_more_is_over() -> None:
    floor = Floor(world({"a": 1}))
    floor.start(low(1), 1, 1)
    floor.add(high(2), low(3))
    floor.cycle()
    floor.world = replace(floor.world, jobs=tuple(j for j in floor.world.jobs if j.id != 2))
    decided = floor.cycle()
    assert [f.why for f in decided.fallen] == ["the job does not wait any more"]
    floor.pass_(60 * SECOND)
    assert placed(floor.cycle()) == {1: (1,)}


def test_cores_on_their_way_count_like_cards() -> None:
    floor = Floor(world({"a": 4}))
    floor.start(low(1, gpus=2), 1, 1, 2)
    floor.add(high(2, gpus=3, cpus=32))
    assert victims(floor.cycle()) == [1]
    # Two cores' worth of cards are free, yet every core of the node is pledged or gone.
    floor.add(low(3))
    assert placed(floor.cycle()) == {}
    floor.pass_(60 * SECOND)
    assert placed(floor.cycle()) == {2: (1, 2, 3)}


def test_many_who_may_preempt_on_a_full_floor_do_not_hold_up_a_cycle() -> None:
    floor = Floor(world({f"n{i:03}": 8 for i in range(60)}))
    for one in floor.world.nodes:
        for gpu in one.gpus:
            floor.start(low(gpu.id), one.id, gpu.id, since_us=floor.now_us - gpu.id * SECOND)
    floor.add(*(high(1000 + i, gpus=1 + i % 8, cpus=8 + i) for i in range(60)))
    tried = len(floor.cycle().pledges)
    # About 1,000 a turn of what a cycle may look at; the others look in the next cycles.
    assert 15 <= tried <= 25
    for _ in range(5):
        floor.cycle()
    assert len(floor.pledges) > tried
