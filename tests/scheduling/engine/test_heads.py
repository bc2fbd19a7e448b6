"""Room is kept for the first that waits: others start only where they do not delay it."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.plan import plan
from scheduling.engine.world import Job, Limit, Pool, Team, Use, World

from .days import Day
from .worlds import NOW_US, codes, job, placed, why, world

S = 1_000_000
H = 3600 * S


def at(seconds: int) -> int:
    return NOW_US + seconds * S


def busy(nodes: dict[str, int], *running: Job, pools: tuple[Pool, ...] = ()) -> Day:
    """A day on which these jobs have just started."""
    day = Day(replace(world(nodes, queue=running), pools=pools))
    day.cycle()
    assert len(day.running) == len(running)
    return day


def test_a_large_job_that_needs_nodes_now_full_is_not_starved_by_a_stream_of_small_ones() -> None:
    # Two nodes of 8, full until 100 s; a job of 16; then 1-GPU jobs of an hour arrive for ever.
    lasting = (job(i, limit_us=(100 if i == 16 else 50) * S) for i in range(1, 17))
    day = busy({"a": 8, "b": 8}, *lasting)
    large = job(50, gpus=16, nodes=2, limit_us=H, submitted_us=at(0))
    stream = [job(100 + i, limit_us=H, submitted_us=at(i)) for i in range(1, 200)]

    day.run([large, *stream], until=lambda day: 50 in day.started)

    assert day.started[50] == at(100)


def test_a_whole_cluster_job_starts_when_the_last_of_those_running_has_ended() -> None:
    lasting = [job(i, limit_us=i * 10 * S) for i in range(1, 9)]
    day = busy({"a": 4, "b": 4}, *lasting)
    large = job(50, gpus=8, nodes=2, limit_us=H, submitted_us=at(0))
    stream = [job(100 + i, limit_us=45 * S, submitted_us=at(i)) for i in range(1, 100)]

    day.run([large, *stream], until=lambda day: 50 in day.started)

    assert day.started[50] == at(80)
    assert len(day.started) > 9, "short ones were let in before it"


def test_a_short_job_starts_into_the_gap_and_a_long_one_waits_for_the_head() -> None:
    day = busy({"a": 4}, job(1, gpus=2, limit_us=100 * S))
    day.add(job(2, gpus=4, limit_us=H), job(3, limit_us=101 * S), job(4, limit_us=100 * S))
    decided = plan(day.seen())

    assert placed(decided).keys() == {4}
    assert codes(decided)[3] == ["Priority"]
    assert dict(why(decided, 3)[0].numbers) == {
        "ahead": 1, "at_s": at(100) // S // 60 * 60, "jobs": "2", "kept": 1,
    }  # fmt: skip


def test_cards_that_are_busy_now_are_kept_first() -> None:
    day = busy({"a": 8}, job(1, gpus=4, limit_us=100 * S))
    day.add(job(2, gpus=6, limit_us=H), job(3, gpus=2, limit_us=9 * H), job(4, limit_us=9 * H))

    assert placed(plan(day.seen())).keys() == {3}


def test_a_job_without_a_limit_starts_only_on_what_the_head_does_not_need() -> None:
    day = busy({"a": 4}, job(1, gpus=2, limit_us=100 * S))
    day.add(job(2, gpus=3, limit_us=H), job(3, gpus=2), job(4))

    assert placed(plan(day.seen())).keys() == {4}


def test_room_is_kept_for_nobody_whose_time_no_limit_tells() -> None:
    # The card it needs is held by a job without a limit: waiting for it would idle the others.
    day = busy({"a": 4}, job(1, gpus=2))
    day.add(job(2, gpus=4, limit_us=H), job(3, limit_us=9 * H))

    assert placed(plan(day.seen())).keys() == {3}


def test_a_job_that_waits_for_its_quota_holds_up_nobody() -> None:
    # Guaranteed 4: two run, the next asks for 4 and has to wait for them anyway.
    teams = (Team(1, "guaranteed", None), Team(2, "besteffort", None))
    day = busy({"a": 8}, job(1, gpus=2, limit_us=H))
    seen = replace(
        day.seen(), teams=teams, limits=(Limit(1, "", 4000),), uses=(Use(1, "H100", 2000, 0, 0),)
    )
    queue = (job(2, gpus=4, limit_us=H), job(3, gpus=2, team=2, limit_us=9 * H))
    decided = plan(replace(seen, jobs=queue))

    assert placed(decided).keys() == {3}
    assert codes(decided)[2][0] == "QuotaLimit"


def test_a_later_job_of_the_team_does_not_take_the_quota_that_the_head_will_need() -> None:
    # The team may hold 6. At 100 s its 2 on a are back and the head takes 4: 2 are left.
    running = [job(1, gpus=2, limit_us=100 * S), job(9, gpus=2, team=2, limit_us=100 * S)]
    day = busy({"a": 4, "b": 4}, *running)
    day.world = replace(day.world, nodes=(day.world.nodes[0], replace(day.world.nodes[1], pool=2)))
    teams = (Team(1, "vision", None), Team(2, "speech", None))
    held = (Use(1, "H100", 2000, 0, 0),)
    full = replace(day.seen(), teams=teams, limits=(Limit(1, "", 6000),), uses=held)
    late = [job(id, pool=2, limit_us=H) for id in (11, 12, 13)]
    decided = plan(replace(full, jobs=(job(10, gpus=4, limit_us=H), *late)))

    assert placed(decided).keys() == {11, 12}
    assert dict(why(decided, 13)[0].numbers)["jobs"] == "10"


@pytest.mark.parametrize(("depth", "let_in"), [(0, {5, 6}), (1, {5}), (-1, set())])
def test_the_depth_says_for_how_many_room_is_kept(depth: int, let_in: set[int]) -> None:
    running = [job(1, gpus=3, limit_us=50 * S), job(2, gpus=3, limit_us=100 * S)]
    day = busy({"a": 4, "b": 4}, *running, pools=(Pool(1, depth=depth),))
    # The first has a whole node at 50 s, the second the other one at 100 s; two cards are free.
    day.add(*(job(id, gpus=4, limit_us=H) for id in (3, 4)), job(5, limit_us=H), job(6, limit_us=H))

    assert placed(plan(day.seen())).keys() == let_in


def test_short_jobs_are_let_in_whatever_the_depth() -> None:
    day = busy({"a": 4}, job(1, gpus=3, limit_us=50 * S), pools=(Pool(1, depth=-1),))
    day.add(*(job(id, gpus=4, limit_us=H) for id in (2, 3, 4)), job(5, limit_us=50 * S))

    assert placed(plan(day.seen())).keys() == {5}


def test_a_strict_queue_starts_nobody_past_one_that_lacks_room() -> None:
    day = busy({"a": 4}, job(1, gpus=2, limit_us=100 * S), pools=(Pool(1, strict=True),))
    day.add(job(2, gpus=4, limit_us=H), job(3, limit_us=S), job(4, limit_us=S, pool=2))
    decided = plan(day.seen())

    assert placed(decided) == {}
    assert dict(why(decided, 3)[0].numbers) == {"ahead": 1, "jobs": "2", "strict": 1}


def _story(seed: int) -> tuple[Day, list[Job]]:
    """A few nodes, jobs over time; all run exactly as long as their limit says."""
    dice = Random(seed)  # noqa: S311 - worlds, not secrets
    nodes = {name: dice.choice([2, 4, 4]) for name in "abc"[: dice.randint(1, 3)]}
    jobs = []
    for id in range(1, dice.randint(4, 12)):
        parts = dice.choice([1, 1, 1, min(2, len(nodes))])
        jobs.append(
            job(
                id,
                gpus=parts * dice.choice([1, 1, 2, 2, 4]),
                nodes=parts,
                cpus=dice.choice([None, None, parts, 8 * parts]),
                limit_us=dice.randint(1, 40) * S,
                submitted_us=at(dice.randint(0, 30)),
                priority=dice.choice([0, 0, 0, 1]),
            )
        )
    return Day(world(nodes)), jobs


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_backfill_never_delays_the_head(seed: int) -> None:
    """At every moment: the head starts no later than it would if nobody behind it ever started."""
    day, coming = _story(seed)
    promised: dict[int, int] = {}
    latest = max(job.submitted_us for job in coming)

    def check(now: Day) -> bool:
        if now.now_us < latest:
            return False
        waiting = {waiting.job: waiting for waiting in plan(now.seen()).waiting}
        for id in waiting:
            alone = _alone(now.seen(), id)
            ahead = [j for j in now.world.jobs if _before(j, id, now.world)]
            if alone is not None and not ahead:
                promised.setdefault(id, alone)
        return False

    day.run(coming, until=check)

    for id, time_us in promised.items():
        assert day.started[id] <= time_us, id


def _before(one: Job, id: int, day: World) -> bool:
    (other,) = [job for job in day.jobs if job.id == id]
    key = (-one.priority, one.submitted_us, one.id)
    return key < (-other.priority, other.submitted_us, other.id)


def _alone(seen: World, id: int) -> int | None:
    """When the job would start if what runs now ended by its limit and nobody else came."""
    for moment in sorted({one.ends_us for one in seen.running if one.ends_us is not None}):
        gone = [one for one in seen.running if one.ends_us is not None and one.ends_us <= moment]
        nodes = []
        for node in seen.nodes:
            back = {gpu for one in gone if one.node == node.id for gpu in one.gpus}
            mine = [one for one in gone if one.node == node.id]
            nodes.append(
                replace(
                    node,
                    gpus=tuple(replace(g, free=True) if g.id in back else g for g in node.gpus),
                    cpus_free=node.cpus_free + sum(one.cpus for one in mine),
                    memory_free_mib=node.memory_free_mib + sum(one.memory_mib for one in mine),
                    disk_free_gib=node.disk_free_gib + sum(one.disk_gib for one in mine),
                )
            )
        jobs = tuple(job for job in seen.jobs if job.id == id)
        if plan(replace(seen, nodes=tuple(nodes), jobs=jobs, running=())).placements:
            return moment
    return None


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9))
def test_every_job_that_fits_an_empty_cluster_starts_in_the_end(seed: int) -> None:
    day, coming = _story(seed)
    day.run(coming)

    never = {w.job for w in plan(day.seen()).waiting if w.reasons[0].code == "NeverFits"}
    assert day.started.keys() | never == {job.id for job in coming}
