"""Nominal, borrowing and lending: the worked examples of others, and what must hold on any day."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.amounts import Amount, Who
from scheduling.engine.plan import plan
from scheduling.engine.quota import Ledger
from scheduling.engine.sentences import sentence
from scheduling.engine.world import Limit, Team, Use

from .worlds import codes, job, placed, why, world

FIRM = Who(firm=True)
SOFT = Who()


def cohort(*shares: tuple[int, int | None, int | None], extra: int = 0) -> list[Limit]:
    """Teams 2, 3, … below team 1: (nominal, borrowing limit, lending limit) in GPUs each."""
    total = sum(nominal for nominal, _, _ in shares) + extra
    limits = [Limit(1, "", total * 1000, nominal_milli=total * 1000)]
    for team, (nominal, borrowing, lending) in enumerate(shares, start=2):
        most = None if borrowing is None else (nominal + borrowing) * 1000
        lends = None if lending is None else lending * 1000
        limits.append(Limit(team, "", most, nominal_milli=nominal * 1000, lending_milli=lends))
    return limits


def teams(count: int) -> list[Team]:
    return [Team(1, "lab", None), *(Team(n, f"t{n}", 1) for n in range(2, count + 2))]


def most(ledger: Ledger, team: int, who: Who = SOFT) -> int:
    """How many GPUs one request of a team may ask for."""
    return max(n for n in range(200) if not ledger.blockers(team, "", Amount(n * 1000, 0, 0), who))


def borrowed(ledger: Ledger, team: int) -> int:
    """How much a team holds above its own."""
    return max(max(0, held - nominal) for held, nominal in ledger.held_of(team, ""))


def of(limits: list[Limit], uses: tuple[Use, ...] = ()) -> Ledger:
    return Ledger(teams(len(limits) - 1), limits, uses)


def gpus(team: int, count: int, *, firm: bool = False) -> Use:
    return Use(team, "", count * 1000, 0, 0, count * 1000 if firm else 0)


def test_a_team_borrows_all_that_its_cohort_does_not_use() -> None:
    assert most(of(cohort((9, None, None), (12, None, None))), 2) == 21


def test_a_borrowing_limit_binds_the_borrower() -> None:
    assert most(of(cohort((9, 1, None), (12, None, None))), 2) == 10


def test_a_lending_limit_binds_the_lender() -> None:
    assert most(of(cohort((9, None, None), (12, None, 1))), 2) == 10


def test_what_a_team_keeps_is_there_for_it_whatever_others_borrow() -> None:
    lent = of(cohort((9, None, None), (12, None, 1)), (gpus(2, 10),))
    assert most(lent, 3) == 11
    assert most(lent, 2) == 0


def test_what_a_parent_has_above_its_children_is_everybodys() -> None:
    shared = of(cohort((4, None, None), (4, None, None), extra=8))
    assert most(shared, 2) == 16
    assert most(shared, 2, FIRM) == 12  # all but what the other is owed


def test_borrowing_reaches_over_several_levels() -> None:
    tree = [Team(1, "org", None), Team(2, "a", 1), Team(3, "b", 1), Team(4, "a1", 2)]
    limits = [
        Limit(1, "", 20_000, nominal_milli=20_000),
        Limit(2, "", 14_000, nominal_milli=10_000),
        Limit(3, "", None, nominal_milli=10_000, lending_milli=6000),
        Limit(4, "", None, nominal_milli=2000),
    ]
    assert most(Ledger(tree, limits), 4) == 14
    assert most(Ledger(tree, limits, [gpus(3, 9)]), 4) == 11


def test_a_team_without_a_quota_owns_nothing_and_borrows_everything() -> None:
    limits = cohort((6, None, None))
    ledger = Ledger([*teams(1), Team(9, "guest", 1)], limits)
    assert most(ledger, 9) == 6
    assert not ledger.is_owed(9, "", 0) or borrowed(ledger, 9) == 0


def test_work_that_cannot_be_taken_back_never_takes_what_others_are_owed() -> None:
    ledger = of(cohort((4, None, None), (4, None, None)))
    assert (most(ledger, 2), most(ledger, 2, FIRM)) == (8, 4)


def test_whatever_is_borrowed_can_be_given_back() -> None:
    """Team 3 asks for its own while team 2 holds all: what must go may be taken back."""
    ledger = of(cohort((4, None, None), (4, None, None)), (gpus(2, 4, firm=True), gpus(2, 4)))
    asked = Amount(4000, 0, 0)
    assert [r.code for r in ledger.blockers(3, "", asked, FIRM)] == ["QuotaNominal"]
    assert ledger.is_owed(3, "", 4000) and borrowed(ledger, 2) == 4000
    ledger.charge(2, "", Amount(-4000, 0, 0), SOFT)
    assert ledger.blockers(3, "", asked, FIRM) == ()


def test_the_reasons_say_who_lent_what() -> None:
    lab = {"nodes": {"a": 8}, "teams": teams(2), "limits": cohort((4, None, None), (4, None, None))}
    owed = world(**lab, held={"a": 6}, uses=[gpus(3, 6)], queue=[job(1, team=2, gpus=4)])
    soft = job(1, team=2, gpus=8, preemptible=True)
    borrows = world(**lab, held={"a": 2}, uses=[gpus(3, 2)], queue=[soft])
    firm = world(**lab, queue=[job(1, team=2, gpus=6)])

    assert sentence(why(plan(owed), 1)[0]) == (
        "t2 holds 0 of its own 4 cards, but others of lab have borrowed the rest: "
        "6 of 8 are in use. It starts when they give it back."
    )
    assert sentence(why(plan(borrows), 1)[0]) == (
        "t2 holds 0 of its own 4 cards. Above that it borrows, and lab has 6 of 8 left to lend; "
        "this job needs 8. It starts when others end."
    )
    assert sentence(why(plan(firm), 1)[0]) == (
        "t2 holds 0 of its own 4 cards. lab owes what is left to its other teams: 0 more are there "
        "for work that cannot be taken back, and this job needs 2. "
        "Choose a priority class that may be preempted, or wait."
    )


def test_one_person_holds_no_more_than_one_person_may() -> None:
    limits = [Limit(1, "", None, user_milli=4000)]
    queue = [job(n, gpus=2, user=user) for n, user in enumerate(("ann", "ann", "ann", "ben"), 1)]
    lab = world(nodes={"a": 8}, limits=limits, queue=queue)

    decided = plan(lab)

    assert sorted(placed(decided)) == [1, 2, 4]
    assert codes(decided) == {3: ["UserLimit"]}
    assert sentence(why(decided, 3)[0]) == (
        "Its owner holds 4 of the 4 cards that one person of vision may hold, "
        "and this job asks for 2. It starts when their other jobs end."
    )


def test_an_untyped_request_counts_against_the_type_it_gets() -> None:
    limits = [
        Limit(1, "H100", 8000, nominal_milli=8000),
        Limit(2, "H100", None, nominal_milli=4000),
        Limit(3, "H100", None, nominal_milli=4000, lending_milli=0),
    ]
    lab = world(nodes={"a": 8}, teams=teams(2), limits=limits, queue=[job(1, team=2, gpus=6)])
    assert codes(plan(lab)) == {1: ["QuotaBorrow"]}


def test_a_request_over_the_quota_of_its_tree_holds_up_nobody_else() -> None:
    limits = cohort((3, None, None), (0, None, None))
    queue = [job(1, team=2, gpus=4), job(2, team=2, gpus=3)]
    decided = plan(world(nodes={"a": 8}, teams=teams(2), limits=limits, queue=queue))
    assert sorted(placed(decided)) == [2]


def test_a_ring_of_teams_is_cut_and_hangs_nobody() -> None:
    ring = [Team(1, "a", 2), Team(2, "b", 1)]
    limits = [Limit(1, "", 2000, nominal_milli=1000), Limit(2, "", 2000, nominal_milli=1000)]
    assert most(Ledger(ring, limits), 1) <= 2


SHARES = st.tuples(
    st.integers(0, 6),
    st.one_of(st.none(), st.integers(0, 4)),
    st.one_of(st.none(), st.integers(0, 6)),
)
ASKS = st.lists(st.tuples(st.integers(2, 4), st.integers(1, 5), st.booleans()), max_size=14)


@settings(max_examples=200)
@given(shares=st.lists(SHARES, min_size=3, max_size=3), extra=st.integers(0, 4), asks=ASKS)
def test_limits_borrowing_and_lending_hold_whatever_is_asked(shares, extra, asks) -> None:
    limits = cohort(*shares, extra=extra)
    ledger = of(limits)
    held = {team: [0, 0] for team in (2, 3, 4)}
    for team, count, firm in asks:
        who = FIRM if firm else SOFT
        if not ledger.blockers(team, "", Amount(count * 1000, 0, 0), who):
            ledger.charge(team, "", Amount(count * 1000, 0, 0), who)
            held[team][0] += count
            held[team][1] += count if firm else 0

    total = sum(nominal for nominal, _, _ in shares) + extra
    kept = firm_kept = 0
    for (nominal, borrowing, lending), (has, has_firm) in zip(shares, held.values(), strict=True):
        assert borrowing is None or has <= nominal + borrowing
        keeps = 0 if lending is None else max(0, nominal - lending)
        kept += max(has, keeps)
        firm_kept += max(has_firm, nominal)
    assert kept <= total
    # Everybody's own can be given back by taking back only what may be taken back.
    assert firm_kept <= total


@settings(max_examples=100)
@given(shares=st.lists(SHARES, min_size=3, max_size=3), asks=ASKS)
def test_what_is_taken_back_leaves_no_trace(shares, asks) -> None:
    limits = cohort(*shares)
    ledger, fresh = of(limits), of(limits)
    for team, count, firm in asks:
        ledger.charge(team, "", Amount(count * 1000, 0, 0), FIRM if firm else SOFT)
    for team, count, firm in reversed(asks):
        ledger.charge(team, "", Amount(-count * 1000, 0, 0), FIRM if firm else SOFT)
    assert [most(ledger, team) for team in (2, 3, 4)] == [most(fresh, team) for team in (2, 3, 4)]


@settings(max_examples=60)
@given(shares=st.lists(SHARES, min_size=3, max_size=3), asks=ASKS, by=st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_limits_or_uses(shares, asks, by) -> None:
    queue = [
        job(n, team=team, gpus=count, preemptible=not firm)
        for n, (team, count, firm) in enumerate(asks, 1)
    ]
    lab = world(
        nodes={"a": 8, "b": 8}, teams=teams(3), limits=cohort(*shares), uses=[gpus(2, 1)],
        queue=queue,
    )  # fmt: skip
    mixed = replace(
        lab,
        limits=tuple(by.sample(lab.limits, len(lab.limits))),
        teams=tuple(by.sample(lab.teams, len(lab.teams))),
        jobs=tuple(by.sample(lab.jobs, len(lab.jobs))),
    )
    assert plan(lab) == plan(mixed)


def test_above_a_nominal_with_nobody_above_there_is_only_work_that_can_be_taken_back() -> None:
    two = [Team(2, "a", None), Team(3, "b", None)]
    open_ended = Limit(2, "", None, nominal_milli=4000)
    ledger = Ledger(two, [open_ended, replace(open_ended, team=3)])
    assert most(ledger, 2, FIRM) == 4
    assert most(ledger, 2, SOFT) == 199


def test_what_a_queue_holds_above_its_guarantee_is_what_another_may_reclaim() -> None:
    """Q1 has a guarantee of 20 and uses 60 of 60: Q2 may take back 40."""
    ledger = of(cohort((20, None, None), (40, None, None)), (gpus(2, 60),))
    assert borrowed(ledger, 2) == 40_000
    assert ledger.is_owed(3, "", 40_000) and not ledger.is_owed(3, "", 41_000)


def test_an_over_quota_sibling_is_who_owes_whatever_protected_neighbours_hold() -> None:
    tree = [
        Team(1, "all", None),
        Team(2, "org", 1),
        Team(3, "protected", 1),
        Team(4, "reclaimer", 2),
        Team(5, "batch", 2),
    ]
    limits = [
        Limit(1, "", 210_000, nominal_milli=210_000),
        Limit(2, "", None, nominal_milli=110_000),
        Limit(3, "", None, nominal_milli=100_000),
        Limit(4, "", None, nominal_milli=110_000),
        Limit(5, "", None, nominal_milli=0),
    ]
    ledger = Ledger(tree, limits, [gpus(5, 110), gpus(3, 90)])
    assert ledger.is_owed(4, "", 100_000)
    assert (borrowed(ledger, 3), borrowed(ledger, 5)) == (0, 110_000)


def test_a_restart_takes_its_quota_anew() -> None:
    """Three of 16 are to run again with two of them counted: the third waits for quota."""
    ledger = of(cohort((32, 0, None)), (gpus(2, 16),))
    asked = Amount(48_000, 0, 0)
    assert [r.code for r in ledger.blockers(2, "", asked, SOFT)][:1] == ["QuotaLimit"]
    ledger.charge(2, "", Amount(-16_000, 0, 0), SOFT)
    assert ledger.blockers(2, "", Amount(32_000, 0, 0), SOFT) == ()
