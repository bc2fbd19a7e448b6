"""Quotas as people set them: what is refused, field by field, and what a change does."""

import pytest

from nodes import clock
from scheduling import cycle
from scheduling.actors import person
from scheduling.errors import InvalidOrder
from scheduling.models import AuditEntry, Quota, Team
from scheduling.services.quotas import remove_quota, save_quota
from scheduling.services.teams import save_team
from tests import builders


@pytest.mark.parametrize(
    ("ask", "field", "says"),
    [
        ({"nominal_milli": -1}, "nominal_milli", "0 or more"),
        ({"borrowing_limit_milli": -1000}, "borrowing_limit_milli", "0 or more"),
        ({"lending_limit_milli": -1}, "lending_limit_milli", "0 or more"),
        ({"user_milli": -1}, "user_milli", "0 or more"),
        ({"nominal_milli": 2000, "lending_limit_milli": 3000}, "lending_limit_milli", "2000"),
        ({"weight": 0}, "weight", "1 or more"),
        ({"weight": None}, "weight", "missing"),
    ],
)
def test_odd_numbers_are_refused_by_their_field(ask, field, says, root, shop):
    quota = Quota(team=shop.teams["lab"], gpu_model="H100", **ask)
    with pytest.raises(InvalidOrder, match=says) as refusal:
        save_quota(person(root), quota, at=clock.now())
    assert set(refusal.value.fields) == {field}
    assert not Quota.objects.filter(gpu_model="H100").exists()


def test_a_parent_is_not_set_below_what_its_teams_have_and_they_are_named(root, shop):
    quota = Quota(team=shop.teams["lab"], nominal_milli=20_000)
    with pytest.raises(InvalidOrder, match="would have 32 GPUs; lab has 20") as refusal:
        save_quota(person(root), quota, at=clock.now())
    assert "speech 16, vision 16" in refusal.value.cause


def test_teams_are_summed_through_one_without_a_quota_of_its_own(root, shop):
    save_quota(person(root), Quota(team=shop.teams["lab"], nominal_milli=40_000), at=clock.now())
    group = save_team(person(root), Team(name="group", parent=shop.teams["lab"]), at=clock.now())
    inner = save_team(person(root), Team(name="inner", parent=group), at=clock.now())
    save_quota(person(root), Quota(team=inner, nominal_milli=8000), at=clock.now())
    with pytest.raises(InvalidOrder, match="group 9"):
        save_quota(
            person(root), Quota(pk=inner.quotas.get().pk, team=inner, nominal_milli=9000),
            at=clock.now(),
        )  # fmt: skip


def test_a_team_that_moves_takes_its_share_along_and_has_to_fit(root, shop):
    small = save_team(person(root), Team(name="small"), at=clock.now())
    save_quota(person(root), Quota(team=small, nominal_milli=4000), at=clock.now())
    vision = shop.teams["vision"]
    vision.parent = small
    with pytest.raises(InvalidOrder, match="below small would have 16") as refusal:
        save_team(person(root), vision, at=clock.now())
    assert set(refusal.value.fields) == {"parent"}
    vision.refresh_from_db()
    assert vision.parent == shop.teams["lab"]


def test_one_person_is_stopped_at_their_cap_and_the_next_is_not(alice, carol, root, shop):
    builders.node("a")
    quota = Quota.objects.get(team=shop.teams["vision"])
    quota.user_milli = 4000
    save_quota(person(root), quota, at=clock.now())
    assert AuditEntry.objects.filter(verb="set quota").latest("id").facts["user_milli"] == 4000
    first, second, other = (
        builders.job(alice, gpus=3), builders.job(alice, gpus=2), builders.job(carol, gpus=2)
    )  # fmt: skip

    cycle.serve()

    for job in (first, second, other):
        job.refresh_from_db()
    assert [first.state, second.state, other.state] == ["PLACED", "PENDING", "PLACED"]
    assert [why["code"] for why in second.reasons] == ["UserLimit"]


def test_without_a_row_there_is_no_limit_at_that_level(alice, root, shop):
    builders.node("a")
    quota = Quota.objects.get(team=shop.teams["vision"])
    quota.nominal_milli = 1000
    save_quota(person(root), quota, at=clock.now())
    job = builders.job(alice, gpus=1)
    cycle.serve()
    later = builders.job(alice, gpus=1)
    cycle.serve()
    later.refresh_from_db()
    assert later.state == "PENDING"

    remove_quota(person(root), quota, at=clock.now())
    cycle.serve()

    job.refresh_from_db()
    later.refresh_from_db()
    assert (job.state, later.state) == ("PLACED", "PLACED")
