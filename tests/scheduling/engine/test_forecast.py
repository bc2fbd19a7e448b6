"""Every waiting job is told from when and by when it starts, or why nobody can tell."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import forecast
from scheduling.engine.plan import plan
from scheduling.engine.world import Limit, Plan, Pool, Use, Waiting

from .days import Day
from .test_heads import H, S, _story, at, busy
from .worlds import job


def told(plan: Plan) -> dict[int, Waiting]:
    return {waiting.job: waiting for waiting in plan.waiting}


@pytest.fixture(params=["exact", "skyline"])
def budget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The near end of a queue is looked at exactly, the far end by the skyline."""
    if request.param == "skyline":
        monkeypatch.setattr(forecast, "LOOKS", 0)
    return str(request.param)


def test_the_first_starts_when_what_it_needs_has_reached_its_limits(budget: str) -> None:
    day = busy({"a": 4}, job(1, gpus=3, limit_us=100 * S), job(2, limit_us=50 * S))
    day.add(job(3, gpus=4, limit_us=H))
    first = told(plan(day.seen()))[3]

    assert (first.from_us, first.by_us, first.unsure) == (at(100), at(100), "")


def test_who_stands_behind_starts_after_those_ahead_at_the_latest(budget: str) -> None:
    day = busy({"a": 4}, job(1, gpus=4, limit_us=100 * S))
    day.add(*(job(id, gpus=4, limit_us=H) for id in (2, 3, 4)))
    found = told(plan(day.seen()))

    assert [found[id].from_us for id in (2, 3, 4)] == [at(100)] * 3
    assert [found[id].by_us for id in (2, 3, 4)] == [at(100), at(100) + H, at(100) + 2 * H]


def test_a_gang_starts_when_the_last_of_its_nodes_is_free(budget: str) -> None:
    day = busy({"a": 4, "b": 4, "c": 4}, *(job(i, gpus=4, limit_us=i * 60 * S) for i in (1, 2, 3)))
    day.add(job(4, gpus=8, nodes=2, limit_us=H), job(5, gpus=4, limit_us=H))
    found = told(plan(day.seen()))

    assert (found[4].by_us, found[5].by_us) == (at(120), at(180))


def test_nobody_can_tell_when_a_job_without_a_limit_ends(budget: str) -> None:
    day = busy({"a": 4}, job(1, gpus=4))
    day.add(job(2, gpus=2, limit_us=H))
    waiting = told(plan(day.seen()))[2]

    assert (waiting.from_us, waiting.by_us, waiting.unsure) == (None, None, "unknown")


def test_a_job_behind_one_without_a_limit_has_no_end_told(budget: str) -> None:
    day = busy({"a": 4}, job(1, gpus=4, limit_us=100 * S))
    day.add(job(2, gpus=4), job(3, gpus=4, limit_us=S))
    waiting = told(plan(day.seen()))[3]

    assert (waiting.from_us, waiting.by_us, waiting.unsure) == (at(100), None, "unknown")


def test_who_waits_for_quota_hears_when_room_is_there_and_no_more(budget: str) -> None:
    day = busy({"a": 4}, job(1, gpus=4, limit_us=100 * S))
    day.add(job(2, gpus=1, limit_us=H))
    full = replace(day.seen(), limits=(Limit(1, "", 4000),), uses=(Use(1, "H100", 4000, 0, 0),))
    waiting = told(plan(full))[2]

    assert (waiting.from_us, waiting.by_us, waiting.unsure) == (at(100), None, "quota")


def test_a_request_that_never_fits_is_told_no_time(budget: str) -> None:
    day = busy({"a": 4}, job(1, gpus=4, limit_us=100 * S))
    day.add(job(2, gpus=5, limit_us=H))

    assert told(plan(day.seen()))[2].unsure == "never"


def test_in_a_strict_queue_nobody_is_thought_to_start_before_who_is_ahead(budget: str) -> None:
    pools = (Pool(1, strict=True),)
    day = busy({"a": 4}, job(1, gpus=2, limit_us=100 * S), pools=pools)
    day.add(job(2, gpus=4, limit_us=H), job(3, limit_us=S))
    found = told(plan(day.seen()))

    assert found[2].by_us == at(100)
    assert found[3].by_us is not None
    assert found[3].by_us >= at(100)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9))
def test_no_job_starts_before_the_first_time_told_and_the_first_in_line_by_the_last(
    seed: int,
) -> None:
    day, coming = _story(seed)
    from_us: dict[int, int] = {}
    by_us: dict[int, int] = {}

    def listen(now: Day) -> bool:
        for place, waiting in enumerate(plan(now.seen()).waiting):
            if waiting.from_us is not None:
                from_us[waiting.job] = max(from_us.get(waiting.job, 0), waiting.from_us)
            if waiting.by_us is not None and place == 0:
                by_us.setdefault(waiting.job, waiting.by_us)
        return False

    day.run(coming, until=listen)

    late = max(one.submitted_us for one in coming)
    for id, start in day.started.items():
        assert start >= from_us.get(id, 0)
        if id in by_us and start > late and all(one.priority == 0 for one in coming):
            assert start <= by_us[id]
