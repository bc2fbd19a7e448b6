"""Borrowing over many cycles: small worlds in which other schedulers went wrong, and what holds."""

from collections import Counter, deque
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.amounts import Amount, Who
from scheduling.engine.decay import decayed
from scheduling.engine.fair import Fair
from scheduling.engine.plan import plan
from scheduling.engine.quota import Ledger
from scheduling.engine.world import Budget, Limit, Spent, Team, Use

from .worlds import codes, job, placed, world

LAB = Team(1, "lab", None)
HOUR_S = 3600
WEEK_S = 7 * 24 * HOUR_S


def share(team: int, own: int, most: int | None = None) -> Limit:
    return Limit(team, "", most if most is None else most * 1000, nominal_milli=own * 1000)


def gpus(team: int, count: int, *, firm: bool = True) -> Use:
    return Use(team, "H100", count * 1000, 0, 0, count * 1000 if firm else 0)


def test_a_request_above_its_tree_blocks_nobody_and_the_next_is_owed() -> None:
    """A has 3 of its own, B none: B's job of 1 runs on what A lends; A asks for 4, then for 3."""
    teams = [LAB, Team(2, "a", 1), Team(3, "b", 1)]
    limits = [share(1, 3, 3), share(2, 3), share(3, 0)]
    queue = [job(1, team=2, gpus=4), job(2, team=2, gpus=3)]
    lent = world(
        {"n": 4}, {"n": 1}, queue, teams=teams, limits=limits, uses=[gpus(3, 1, firm=False)]
    )

    decided = plan(lent)

    assert placed(decided) == {} and decided.evictions == ()
    assert codes(decided)[1][0] == "QuotaBorrow" and "QuotaNominal" in codes(decided)[2]
    ledger = Ledger(teams, limits, lent.uses)
    assert not ledger.is_owed(2, "H100", 4000) and ledger.is_owed(2, "H100", 3000)


def test_a_head_that_waits_for_its_own_team_does_not_keep_others_from_borrowing() -> None:
    """G has 4 and runs 2; its next asks for 4 and has to wait for them: B borrows 2 meanwhile."""
    teams = [LAB, Team(2, "g", 1), Team(3, "b", 1)]
    limits = [share(1, 4, 4), share(2, 4), share(3, 0)]
    queue = [job(1, team=2, gpus=4), job(2, team=3, gpus=2, preemptible=True)]
    half = world({"n": 4}, {"n": 2}, queue, teams=teams, limits=limits, uses=[gpus(2, 2)])
    assert sorted(placed(plan(half))) == [2]


def test_a_limit_of_a_team_holds_whoever_may_preempt() -> None:
    """The cap of its team keeps an urgent job out: nobody is stopped for it."""
    queue = [job(1, gpus=8, priority=9, may_preempt=True)]
    full = world({"n": 8}, {"n": 8}, queue, limits=[share(1, 4, 4)], uses=[gpus(1, 0)])
    decided = plan(full)
    assert decided.evictions == () and "QuotaLimit" in codes(decided)[1]


def test_a_hard_budget_that_is_used_up_lets_jobs_wait_and_a_soft_one_does_not() -> None:
    for hard, start, why in ((False, [1], {}), (True, [], {1: ["Budget"]})):
        limit = replace(share(1, 8), budget=Budget(1000, 1000, hard, 5_000_000))
        decided = plan(world({"n": 8}, queue=[job(1)], limits=[limit]))
        assert (sorted(placed(decided)), codes(decided)) == (start, why)


def saturated(weights: dict[int, int], hours: int, idle_from: int = 10**9) -> Counter[int]:
    """Hours of one card that teams get which always have jobs waiting; the last stops asking."""
    teams = [Team(team, f"t{team}", None, weight) for team, weight in weights.items()]
    used = dict.fromkeys(weights, 0)
    got: Counter[int] = Counter()
    for hour in range(hours):
        asking = [team for team in weights if team != max(weights) or hour < idle_from]
        queue = [job(hour * 10 + team, team=team, user="x") for team in asking]
        first = Fair(teams, [Spent(t, "x", use) for t, use in used.items()]).line(queue)[0]
        got[first.team] += 1
        used = {team: decayed(use, HOUR_S, WEEK_S) for team, use in used.items()}
        used[first.team] += 1000 * HOUR_S
    return got


def test_under_saturation_use_follows_the_weights_within_a_job() -> None:
    for hours in (40, 400):
        got = saturated({1: 3, 2: 1}, hours)
        assert abs(got[1] - hours * 3 / 4) <= 1
    got = saturated({1: 5, 2: 3, 3: 2}, 300)
    assert all(abs(got[team] - 300 * weight / 10) <= 2 for team, weight in ((1, 5), (2, 3), (3, 2)))


def test_what_a_team_does_not_ask_for_goes_to_the_others() -> None:
    got = saturated({1: 1, 2: 1, 3: 2}, 400, idle_from=200)
    assert abs(got[3] - 100) <= 1
    assert abs(got[1] - got[2]) <= 1 and got.total() == 400


MOVES = st.lists(
    st.tuples(st.integers(2, 4), st.integers(1, 4), st.booleans(), st.booleans()), max_size=30
)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 5), min_size=3, max_size=3), st.integers(0, 3), MOVES)
def test_what_each_was_promised_can_always_be_given_back(own, extra, moves) -> None:
    """At every moment: everybody's own fits beside all the work that cannot be taken back."""
    total = sum(own) + extra
    teams = [LAB, *(Team(n, f"t{n}", 1) for n in (2, 3, 4))]
    limits = [share(1, total, total), *(share(n, k) for n, k in zip((2, 3, 4), own, strict=True))]
    ledger = Ledger(teams, limits)
    running: dict[tuple[int, bool], deque[int]] = {}
    for team, count, firm, ends in moves:
        mine = running.setdefault((team, firm), deque())
        if ends and mine:
            ledger.charge(team, "", Amount(-1000 * mine.popleft(), 0, 0), Who(firm=firm))
        elif not ledger.blockers(team, "", Amount(1000 * count, 0, 0), Who(firm=firm)):
            ledger.charge(team, "", Amount(1000 * count, 0, 0), Who(firm=firm))
            mine.append(count)
        held = {t: sum(running.get((t, True), ())) for t in (2, 3, 4)}
        assert sum(max(held[t], k) for t, k in zip((2, 3, 4), own, strict=True)) <= total
        everything = sum(sum(jobs) for jobs in running.values())
        assert everything <= total
