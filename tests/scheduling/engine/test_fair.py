"""Whose turn it is: worked examples of others, shares by weight, and what holds on any day."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.decay import decayed
from scheduling.engine.fair import Fair, turn_milli_s
from scheduling.engine.order import in_order
from scheduling.engine.plan import plan
from scheduling.engine.world import Job, Spent, Team

from .worlds import NOW_US, job, placed, world

HOUR = 3_600_000
DAY_S = 24 * 3600
A, B, C, D, E, F = range(1, 7)


def ids(jobs: list[Job]) -> list[int]:
    return [one.id for one in jobs]


def test_the_fair_tree_ranks_slurms_worked_example_as_published() -> None:
    """A40{B30{u1},C10{u2,u3}} D60{E25{u4},F35{u5}}, used u1 .2, u2 .25, u4 .25.

    The published factors are u1 .408479, u2 .022097, u3 .125, u4 .5 and u5 .749154.
    """
    teams = [
        Team(A, "A", None, 40), Team(B, "B", A, 30), Team(C, "C", A, 10),
        Team(D, "D", None, 60), Team(E, "E", D, 25), Team(F, "F", D, 35),
    ]  # fmt: skip
    k = 1000 * HOUR
    spent = [Spent(B, "u1", 200 * k), Spent(C, "u2", 250 * k), Spent(E, "u4", 250 * k)]
    jobs = [job(n, team=team, user=f"u{n}") for n, team in ((1, B), (2, C), (3, C), (4, E), (5, F))]
    assert ids(Fair(teams, spent).line(jobs)) == [5, 4, 1, 3, 2]


def test_if_a_team_is_before_another_so_are_all_its_users() -> None:
    teams = [Team(1, "a", None), Team(2, "b", None)]
    spent = [Spent(1, "heavy", 10_000 * HOUR), Spent(2, "light", 90_000 * HOUR)]
    jobs = [
        job(1, team=2, user="new"), job(2, team=1, user="heavy"), job(3, team=1, user="new"),
    ]  # fmt: skip
    assert ids(Fair(teams, spent).line(jobs)) == [3, 2, 1]


def test_under_load_turns_come_in_the_ratio_of_the_weights() -> None:
    teams = [Team(1, "a", None, 3), Team(2, "b", None, 1)]
    jobs = [job(n, team=1 + n % 2, gpus=1) for n in range(400)]
    for count in (40, 80, 120):
        turns = Counter(one.team for one in Fair(teams, ()).line(jobs)[:count])
        assert abs(turns[1] - count * 3 / 4) <= 1


def test_a_burst_of_one_user_waits_behind_one_job_of_another() -> None:
    jobs = [*(job(n, user="ann") for n in range(1, 9)), job(9, user="ben")]
    assert ids(Fair([Team(1, "a", None)], ()).line(jobs))[:2] == [1, 9]


def test_who_used_more_of_late_goes_later_and_priority_goes_first() -> None:
    queue = [job(1, user="ann"), job(2, user="ben"), job(3, user="ann", priority=1)]
    day = world({"a": 2}, queue=queue)
    used = replace(day, spent=(Spent(1, "ann", 100 * HOUR),))
    assert sorted(placed(plan(used))) == [2, 3]


def test_alone_the_queue_is_first_come_first_served() -> None:
    assert ids(in_order(world({"a": 1}, queue=[job(3), job(1), job(2)]))) == [1, 2, 3]


def test_a_team_of_weight_zero_goes_last_and_still_goes() -> None:
    teams = [Team(1, "guests", None, 0), Team(2, "b", None, 1)]
    jobs = [job(1, team=1), job(2, team=2), job(3, team=2)]
    assert ids(Fair(teams, [Spent(2, "", HOUR)]).line(jobs)) == [2, 3, 1]


def test_after_a_week_one_job_of_each_user_goes_first_whatever_is_urgent() -> None:
    week = 7 * DAY_S * 1_000_000
    old = NOW_US - week - 1
    queue = [
        job(1, priority=5),
        job(2, submitted_us=old, user="ann"),
        job(3, submitted_us=old + 1, user="ann"),
        job(4, submitted_us=old - 1, user="ben", priority=-5),
        job(5, submitted_us=old, user="eve", eligible_us=NOW_US - 5),
    ]
    queue[0] = job(1, priority=5, submitted_us=NOW_US)
    day = replace(world({"a": 1}, queue=queue), starves_us=week)
    assert ids(in_order(day)) == [4, 2, 1, 5, 3]


def test_use_is_halved_after_every_half_life_and_never_grows() -> None:
    week = 7 * DAY_S
    assert [decayed(1 << 40, n * week, week) for n in range(4)] == [1 << (40 - n) for n in range(4)]
    for days in (1, 3, 5, 10):
        exact = (1 << 40) * 0.5 ** (days / 7)
        assert abs(exact - decayed(1 << 40, days * DAY_S, week)) < exact / 30_000
    assert decayed(1000, 9 * week, 0) == 1000


@given(st.integers(0, 10**15), st.integers(0, 10**8), st.integers(0, 10**6), st.integers(1, 10**7))
def test_later_less_is_left(amount: int, age: int, more: int, half_life: int) -> None:
    assert 0 <= decayed(amount, age + more, half_life) <= decayed(amount, age, half_life) <= amount


TREE = [Team(1, "lab", None), Team(2, "a", 1, 3), Team(3, "b", 1, 1), Team(4, "c", None, 2)]
QUEUES = st.lists(
    st.tuples(st.sampled_from([2, 3, 4]), st.sampled_from("xyz"), st.integers(1, 8)), max_size=30
)
SPENT = st.lists(
    st.tuples(st.sampled_from([2, 3, 4]), st.sampled_from("xyz"), st.integers(0, 10**12)),
    max_size=6,
)


@settings(max_examples=150)
@given(QUEUES, SPENT, st.randoms(use_true_random=False))
def test_everybody_gets_a_turn_once_and_the_order_of_the_input_means_nothing(
    queue, spent, dice
) -> None:
    jobs = [job(n, team=t, user=u, gpus=g) for n, (t, u, g) in enumerate(queue, 1)]
    used = [Spent(*one) for one in spent]
    line = Fair(TREE, used).line(jobs)
    mixed = [dice.sample(list(items), len(items)) for items in (TREE, used, jobs)]

    assert sorted(ids(line)) == sorted(ids(jobs))
    assert ids(Fair(mixed[0], mixed[1]).line(mixed[2])) == ids(line)
    for team in (2, 3, 4):
        for user in "xyz":
            own = [one.id for one in line if (one.team, one.user) == (team, user)]
            assert own == sorted(own)


WEIGHTS = st.lists(st.integers(1, 9), min_size=2, max_size=4)
WANTED = st.lists(st.integers(0, 60), min_size=4, max_size=4)


@settings(max_examples=150)
@given(WEIGHTS, WANTED, st.integers(1, 60))
def test_cards_are_shared_as_water_fills_vessels(weights, wanted, cards) -> None:
    """Against water filling: whoever wants more has no less, for the weight, than others less one.

    That is what max-min is where cards are whole; so nobody is off by a card of each other team.
    """
    teams = [Team(n, f"t{n}", None, weight) for n, weight in enumerate(weights, 1)]
    demand = {team.id: wanted[team.id - 1] for team in teams}
    jobs = [
        job(team * 1000 + n, team=team, submitted_us=n)
        for team, most in demand.items()
        for n in range(most)
    ]
    got = Counter(one.team for one in Fair(teams, ()).line(jobs)[:cards])

    level = poured({t.id: t.weight for t in teams}, demand, cards)
    weight = {team.id: team.weight for team in teams}
    assert got.total() == min(cards, sum(demand.values()))
    for team in demand:
        assert abs(got[team] - level[team]) < len(demand)
        for other in got if got[team] < demand[team] else ():
            assert (got[other] - 1) * weight[team] <= got[team] * weight[other]


def poured(weights: dict[int, int], demand: dict[int, int], cards: int) -> dict[int, float]:
    """Water filling: pour by weight; who has enough leaves the rest to the others."""
    full: dict[int, float] = {}
    left, open_ = float(cards), dict(weights)
    while open_:
        per_weight = left / sum(open_.values())
        done = [team for team, weight in open_.items() if demand[team] <= per_weight * weight]
        if not done:
            return full | {team: per_weight * weight for team, weight in open_.items()}
        for team in done:
            full[team] = demand[team]
            left -= demand[team]
            del open_[team]
    return full


def test_a_turn_is_charged_its_limit_and_at_most_an_hour() -> None:
    quick, slow = job(1, limit_us=60_000_000, gpus=2), job(2, gpus=2)
    assert (turn_milli_s(quick), turn_milli_s(slow)) == (120_000, 7_200_000)
