"""Loans and budgets: what is lent counts for the borrower for a time, and a month has an end."""

from datetime import timedelta

import pytest

from nodes import clock
from scheduling import cycle, limits
from scheduling.actors import person
from scheduling.errors import InvalidOrder, WrongState
from scheduling.models import AuditEntry, Loan, Quota, Team, UsageSum
from scheduling.reasons import sentences
from scheduling.services import loans
from scheduling.services.quotas import save_quota
from scheduling.usage import month_of
from tests import builders

DAY = timedelta(days=1)
HOUR_MILLI_S = 3_600_000


@pytest.fixture
def lend(shop, root):
    """Vision lends to speech, from now on for a day unless told otherwise."""

    def lent(gpus: int, *, after=timedelta(0), days: int = 1, **more) -> Loan:
        at = clock.now()
        asked = {
            "lender": shop.teams["vision"],
            "borrower": shop.teams["speech"],
            "milli": gpus * 1000,
            "from_at": at + after,
            "until_at": at + after + days * DAY,
        }
        return loans.make(person(root), Loan(**asked | more), at=at)

    return lent


def nominal(at) -> dict[str, tuple[int, int | None]]:
    names = dict(Team.objects.values_list("pk", "name"))
    return {names[one.team]: (one.nominal_milli, one.milli) for one in limits.limits(at)}


def test_a_loan_moves_nominal_for_its_time_and_no_longer(lend):
    loan = lend(4)
    assert nominal(loan.from_at) == {"vision": (12_000, 12_000), "speech": (20_000, 20_000)}
    assert nominal(loan.until_at) == {"vision": (16_000, 16_000), "speech": (16_000, 16_000)}
    assert AuditEntry.objects.filter(verb="lend").count() == 2  # one for each team to see


def test_a_loan_across_the_tree_moves_the_totals_above_and_not_what_both_share(lend, shop, root):
    at = clock.now()
    other = Team.objects.create(name="other")
    inner = Team.objects.create(name="inner", parent=other)
    for team, milli in ((shop.teams["lab"], 40_000), (other, 8000)):
        save_quota(person(root), Quota(team=team, nominal_milli=milli), at=at)
    loan = lend(4, borrower=inner)
    held = nominal(loan.from_at)
    assert (held["lab"][0], held["vision"][0], held["speech"][0]) == (36_000, 12_000, 16_000)
    assert (held["other"][0], held["inner"]) == (12_000, (4000, None))
    lend(2)
    assert nominal(loan.until_at - timedelta(minutes=1))["lab"][0] == 36_000


def test_the_borrower_starts_more_and_the_lender_less(lend, alice, bob):
    for name in "abcd":
        builders.node(name)
    lend(8)
    ours, theirs = builders.job(alice, gpus=8), builders.job(bob, gpus=24, nodes=3)
    more = builders.job(alice, gpus=1)

    cycle.serve()

    for job in (ours, theirs, more):
        job.refresh_from_db()
    assert [ours.state, theirs.state, more.state] == ["PLACED", "PLACED", "PENDING"]


@pytest.mark.parametrize(
    ("ask", "field", "says"),
    [
        ({"gpus": 17}, "milli", "can lend 16, not 17"),
        ({"gpus": 0}, "milli", "1 or more"),
        ({"gpus": 1, "gpu_model": "H100"}, "milli", "has 0 H100"),
        ({"gpus": 1, "days": -1}, "until_at", "later"),
        ({"gpus": 1, "after": -3 * DAY}, "until_at", "over already"),
    ],
)
def test_what_cannot_be_lent_is_refused_by_its_field(lend, ask, field, says):
    with pytest.raises(InvalidOrder, match=says) as refusal:
        lend(**ask)
    assert set(refusal.value.fields) == {field}


def test_nobody_lends_to_themselves_or_to_a_team_that_has_teams(lend, shop):
    for borrower in ("vision", "lab"):
        with pytest.raises(InvalidOrder) as refusal:
            lend(1, borrower=shop.teams[borrower])
        assert set(refusal.value.fields) == {"borrower"}


def test_what_is_lent_is_not_lent_twice_at_a_time(lend):
    lend(10)
    with pytest.raises(InvalidOrder, match="has lent 10 of them"):
        lend(7)
    assert lend(7, after=2 * DAY).pk and lend(6).pk


def test_what_is_given_back_early_is_back_and_only_once(lend, root):
    loan = lend(4)
    at = clock.now()
    loans.end(person(root), loan, at=at, reason="done")
    assert nominal(at)["vision"] == (16_000, 16_000)
    assert AuditEntry.objects.filter(verb="end loan", reason="done").count() == 2
    with pytest.raises(WrongState, match="ended at"):
        loans.end(person(root), loan, at=clock.now())


def budget(shop, root, alice, *, hard: bool, used_h: int) -> None:
    quota = Quota.objects.get(team=shop.teams["vision"])
    quota.gpu_hours_a_month, quota.budget_is_hard = 100, hard
    save_quota(person(root), quota, at=clock.now())
    UsageSum.objects.create(
        team=quota.team, user=alice, gpu_model="H100",
        month=month_of(clock.now()), milli_s=used_h * HOUR_MILLI_S,
    )  # fmt: skip


def test_beyond_a_hard_budget_jobs_wait_and_what_runs_runs_on(alice, root, shop):
    builders.node("a")
    running = builders.job(alice)
    cycle.serve()
    budget(shop, root, alice, hard=True, used_h=100)
    later = builders.job(alice)
    cycle.serve()

    running.refresh_from_db()
    later.refresh_from_db()
    assert (running.state, later.state) == ("PLACED", "PENDING")
    assert [why["code"] for why in later.reasons] == ["Budget"]
    assert "vision has used 100 of its 100 GPU-hours of this month" in sentences(later)[0]

    Quota.objects.filter(team=shop.teams["vision"]).update(gpu_hours_a_month=101)
    cycle.serve(always=True)
    later.refresh_from_db()
    assert later.state == "PLACED"


def test_beyond_a_soft_budget_jobs_go_after_those_of_others(alice, bob, root, shop):
    builders.node("a")
    budget(shop, root, alice, hard=False, used_h=100)
    first, second = builders.job(alice, gpus=8), builders.job(bob, gpus=8)
    cycle.serve()
    for job in (first, second):
        job.refresh_from_db()
    assert (first.state, second.state) == ("PENDING", "PLACED")


def test_a_budget_above_counts_what_all_below_used(alice, bob, root, shop):
    builders.node("a")
    budget(shop, root, alice, hard=False, used_h=0)
    save_quota(
        person(root),
        Quota(
            team=shop.teams["lab"], nominal_milli=32_000,
            gpu_hours_a_month=10, budget_is_hard=True,
        ),
        at=clock.now(),
    )  # fmt: skip
    UsageSum.objects.update(milli_s=10 * HOUR_MILLI_S)
    job = builders.job(bob)
    cycle.serve()
    job.refresh_from_db()
    assert [why["numbers"]["team"] for why in job.reasons] == ["lab"]
