"""Admin pages: a lead reaches the own subtree by every address, and nothing beside it."""

import json

import pytest

from scheduling.models import (
    AuditEntry,
    BookingRule,
    JobLog,
    Loan,
    Member,
    Pool,
    PriorityClass,
    Quota,
    Team,
)
from tests import builders

pytestmark = pytest.mark.django_db

ADMIN = "/admin/scheduling"


@pytest.fixture
def below(shop):
    """Two teams below vision, so that carol has something to deal out."""
    return [Team.objects.create(name=name, parent=shop.teams["vision"]) for name in ("seg", "det")]


@pytest.fixture
def theirs(shop, bob):
    """One row of each table that belongs to team speech."""
    builders.node("h01")
    job = builders.job(bob, name="secret")
    return {
        "team": shop.teams["speech"],
        "member": Member.objects.get(user=bob),
        "quota": Quota.objects.get(team=shop.teams["speech"]),
        "auditentry": AuditEntry.objects.get(subject=f"job {job.pk}"),
        "joblog": JobLog.objects.get(job=job),
    }


TABLES = ("team", "member", "quota", "auditentry", "joblog")


def rows(response) -> list:
    return list(response.context["cl"].result_list)


@pytest.mark.parametrize("table", TABLES)
def test_a_lead_lists_the_own_subtree_alone(table, theirs, carol, alice, client_of):
    mine = builders.job(alice)
    found = rows(client_of(carol).get(f"{ADMIN}/{table}/"))
    assert found and theirs[table] not in found
    assert all("speech" not in str(row) for row in found), mine


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("page", ["change", "history", "delete"])
def test_a_foreign_row_is_not_found_by_any_address(table, page, theirs, carol, client_of):
    path = f"{ADMIN}/{table}/{theirs[table].pk}/{page}/"
    client = client_of(carol)
    assert client.get(path).status_code in (403, 404)
    assert client.post(path, {"post": "yes", "name": "taken"}).status_code in (403, 404)
    assert type(theirs[table]).objects.filter(pk=theirs[table].pk).exists()
    assert not Team.objects.filter(name="taken").exists()


@pytest.mark.parametrize("table", ["member", "quota"])
def test_a_bulk_action_does_not_reach_foreign_rows(table, theirs, carol, client_of):
    action = {"action": "delete_selected", "_selected_action": theirs[table].pk, "post": "yes"}
    client_of(carol).post(f"{ADMIN}/{table}/", action)
    assert type(theirs[table]).objects.filter(pk=theirs[table].pk).exists()


def test_auto_completion_offers_the_own_subtree_alone(theirs, below, carol, client_of):
    def offered(model: str, field: str) -> set[str]:
        wanted = {"app_label": "scheduling", "model_name": model, "field_name": field, "term": ""}
        answer = client_of(carol).get("/admin/autocomplete/", wanted)
        return {one["text"] for one in json.loads(answer.content)["results"]}

    new = builders.User.objects.create_user("newcomer")
    assert offered("member", "team") == {"vision", "seg", "det"}
    assert offered("member", "user") == {"alice", "carol", new.username}


def test_a_posted_id_of_a_foreign_team_is_no_choice(theirs, below, shop, carol, alice, client_of):
    client, speech = client_of(carol), shop.teams["speech"]
    for table, form in {
        "member": {"team": speech.pk, "user": alice.pk, "role": "lead"},
        "quota": {"team": speech.pk, "nominal_milli": 1},
        "team": {"name": "spy", "parent": speech.pk},
    }.items():
        answer = client.post(f"{ADMIN}/{table}/add/", form)
        assert b"Select a valid choice" in answer.content, table
    seg = f"{ADMIN}/team/{below[0].pk}/change/"
    assert (
        b"Select a valid choice" in client.post(seg, {"name": "seg", "parent": speech.pk}).content
    )
    assert not Member.objects.filter(team=speech, user=alice).exists()


def test_a_lead_cannot_pull_a_person_of_another_team_in(below, carol, bob, client_of):
    form = {"team": below[0].pk, "user": bob.pk, "role": "member"}
    assert b"Select a valid choice" in client_of(carol).post(f"{ADMIN}/member/add/", form).content


def test_lists_cannot_be_searched_through_to_foreign_rows(theirs, carol, client_of):
    client = client_of(carol)
    for query in ("q=speech", "team__name=speech", "team__id__exact=" + str(theirs["team"].pk)):
        answer = client.get(f"{ADMIN}/member/?{query}", follow=True)
        assert b">bob<" not in answer.content and b">speech<" not in answer.content


@pytest.mark.parametrize(
    "asked", ["password__startswith=", "auth_token_set__digest__gt=", "is_superuser=False"]
)
def test_no_list_answers_questions_about_columns_that_it_does_not_show(
    asked, alice, carol, root, client_of
):
    for user in (carol, root):
        answer = client_of(user).get(f"/admin/auth/user/?{asked}{alice.password[:9]}")
        assert answer.status_code == 400
    answer = client_of(root).get("/admin/nodes/node/?private_key__startswith=g")
    assert answer.status_code == 400


def test_a_filter_beside_a_list_still_filters(theirs, shop, root, client_of):
    speech = shop.teams["speech"].pk
    found = rows(client_of(root).get(f"{ADMIN}/member/?team__id__exact={speech}"))
    assert found and all(member.team_id == speech for member in found)


@pytest.mark.parametrize("chosen", ["abc", "\0", "-1", "1.5"])
def test_a_bulk_action_on_no_id_is_refused(chosen, carol, client_of):
    action = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    assert client_of(carol).post(f"{ADMIN}/member/", action).status_code == 400


def test_a_lead_deals_out_what_the_own_team_has(below, shop, carol, client_of):
    client = client_of(carol)
    client.post(f"{ADMIN}/quota/add/", {"team": below[0].pk, "nominal_milli": 6000, "weight": 1})
    quota = Quota.objects.get(team=below[0])
    assert quota.nominal_milli == 6000
    assert AuditEntry.objects.get(verb="set quota").actor == "carol"
    client.post(f"{ADMIN}/quota/{quota.pk}/delete/", {"post": "yes"})
    assert not Quota.objects.filter(pk=quota.pk).exists()
    assert AuditEntry.objects.filter(verb="remove quota", actor="carol").exists()


def test_more_than_the_parent_has_is_refused_on_the_form(below, shop, carol, client_of):
    form = {"team": below[0].pk, "nominal_milli": 17000, "weight": 1}
    page = client_of(carol).post(f"{ADMIN}/quota/add/", form).content.decode()
    assert "would have 17 GPUs; vision has 16." in page
    assert not Quota.objects.filter(team=below[0]).exists()


def test_the_share_of_the_own_team_is_dealt_out_from_above(shop, carol, root, client_of):
    quota = Quota.objects.get(team=shop.teams["vision"])
    path, form = (
        f"{ADMIN}/quota/{quota.pk}/change/",
        {"team": quota.team_id, "nominal_milli": 99, "weight": 1},
    )
    assert client_of(carol).post(path, form).status_code == 403
    assert client_of(carol).get(path).status_code == 200
    client_of(carol).post(
        f"{ADMIN}/quota/",
        {"action": "delete_selected", "_selected_action": quota.pk, "post": "yes"},
    )
    assert Quota.objects.get(pk=quota.pk).nominal_milli == 16_000
    client_of(root).post(path, form)
    assert Quota.objects.get(pk=quota.pk).nominal_milli == 99


def test_a_lead_moves_neither_name_nor_place_of_the_own_team(below, shop, carol, client_of):
    vision = shop.teams["vision"]
    form = {"name": "everything", "title": "Vision group", "parent": below[0].pk}
    client_of(carol).post(f"{ADMIN}/team/{vision.pk}/change/", form)
    vision.refresh_from_db()
    assert (vision.name, vision.title, vision.parent) == (
        "vision",
        "Vision group",
        shop.teams["lab"],
    )


def test_a_lead_makes_no_team_at_the_top(carol, client_of):
    client_of(carol).post(f"{ADMIN}/team/add/", {"name": "free", "parent": ""})
    assert not Team.objects.filter(name="free").exists()


def test_a_ring_of_teams_is_refused_on_the_form(below, root, client_of):
    vision = below[0].parent
    form = {"name": "vision", "title": "", "parent": below[0].pk}
    page = client_of(root).post(f"{ADMIN}/team/{vision.pk}/change/", form).content.decode()
    assert "A team cannot be below itself." in page


def test_the_unix_account_of_a_member_is_the_operators(shop, alice, carol, root, client_of):
    member = Member.objects.get(user=alice)
    path = f"{ADMIN}/member/{member.pk}/change/"
    form = {"team": member.team_id, "user": carol.pk, "role": "lead", "unix_user": "root"}
    client_of(carol).post(path, form)
    member.refresh_from_db()
    assert (member.user, member.role, member.unix_user) == (alice, "lead", "")
    client_of(root).post(path, form | {"user": alice.pk, "unix_user": "alice"})
    member.refresh_from_db()
    assert member.unix_user == "alice"


def test_members_come_and_go_by_the_service(below, carol, client_of):
    client, new = client_of(carol), builders.User.objects.create_user("newcomer")
    client.post(f"{ADMIN}/member/add/", {"team": below[0].pk, "user": new.pk, "role": "member"})
    member = Member.objects.get(user=new)
    action = {"action": "delete_selected", "_selected_action": member.pk, "post": "yes"}
    client.post(f"{ADMIN}/member/", action)
    assert not Member.objects.filter(user=new).exists()
    verbs = AuditEntry.objects.filter(actor="carol").values_list("verb", flat=True)
    assert {"set member", "remove member"} <= set(verbs)


@pytest.mark.parametrize("table", ["scheduling/pool", "scheduling/priorityclass", "nodes/node"])
def test_rules_and_machines_are_not_a_leads(table, carol, client_of):
    builders.node("h01")
    client = client_of(carol)
    assert client.get(f"/admin/{table}/").status_code == 403
    assert client.get(f"/admin/{table}/add/").status_code == 403
    assert client.get(f"/admin/{table}/1/change/").status_code in (403, 404)


def test_an_operator_changes_rules_by_the_service(shop, root, client_of):
    low = PriorityClass.objects.get(name="low")
    form = {"name": "low", "value": 5, "min_runtime_s": 0, "grace_s": 30, "preemptible": "on"}
    client_of(root).post(f"{ADMIN}/priorityclass/{low.pk}/change/", form)
    low.refresh_from_db()
    assert low.value == 5
    assert AuditEntry.objects.filter(verb="set priority class", actor="root").exists()
    assert client_of(root).get(f"{ADMIN}/pool/{Pool.objects.get().pk}/delete/").status_code == 403


def test_an_operator_sets_what_may_be_booked_and_a_lead_does_not(shop, root, carol, client_of):
    form = {"team": shop.teams["vision"].pk, "length_s": 3600, "ahead_s": "", "open_at_once": 2}
    assert client_of(carol).post(f"{ADMIN}/bookingrule/add/", form).status_code == 403
    client_of(root).post(f"{ADMIN}/bookingrule/add/", form)
    rule = BookingRule.objects.get()
    assert (rule.length_s, rule.ahead_s, rule.open_at_once) == (3600, None, 2)
    assert AuditEntry.objects.filter(verb="set booking rule", actor="root").exists()
    client_of(root).post(f"{ADMIN}/bookingrule/{rule.pk}/delete/", {"post": "yes"})
    assert not BookingRule.objects.exists()


def test_an_operator_cordons_nodes_and_sees_no_private_key(shop, root, client_of):
    node = builders.node("h01")
    client = client_of(root)
    client.post("/admin/nodes/node/", {"action": "cordon", "_selected_action": node.pk})
    node.refresh_from_db()
    assert not node.accepts_work
    assert AuditEntry.objects.filter(verb="cordon", actor="root").exists()
    assert b"sealed" not in client.get(f"/admin/nodes/node/{node.pk}/change/").content


def test_an_operator_makes_a_person_who_can_sign_in(shop, root, client, client_of):
    form = {"username": "nina", "password1": "a-long-pass-7", "password2": "a-long-pass-7"}
    client_of(root).post("/admin/auth/user/add/", form)
    assert client.login(username="nina", password="a-long-pass-7")
    weak = client_of(root).post(
        "/admin/auth/user/add/", form | {"username": "x", "password1": "1", "password2": "1"}
    )
    assert weak.status_code == 200 and not builders.User.objects.filter(username="x").exists()


def test_a_lead_makes_nobody_and_gives_no_passwords(shop, carol, alice, client_of):
    client = client_of(carol)
    form = {"username": "nina", "password1": "a-long-pass-7", "password2": "a-long-pass-7"}
    assert client.post("/admin/auth/user/add/", form).status_code == 403
    assert client.post(f"/admin/auth/user/{alice.pk}/change/", form).status_code == 403
    assert alice.check_password("alice-password-1")


@pytest.mark.parametrize("table", ["auditentry", "joblog"])
def test_records_cannot_be_changed_even_by_an_operator(table, theirs, root, client_of):
    client, path = client_of(root), f"{ADMIN}/{table}"
    assert client.get(f"{path}/").status_code == 200
    assert client.get(f"{path}/add/").status_code == 403
    assert client.post(f"{path}/{theirs[table].pk}/change/", {"note": "x"}).status_code == 403
    assert client.post(f"{path}/{theirs[table].pk}/delete/", {"post": "yes"}).status_code == 403


def test_members_and_strangers_have_no_admin_pages(alice, client_of):
    answer = client_of(alice).get("/admin/", follow=True)
    assert answer.status_code == 403 and b"team leads and operators" in answer.content


def test_an_auditor_sees_everything_and_changes_nothing(theirs, shop, client_of):
    auditor = builders.User.objects.create_user("audrey")
    auditor.groups.add(builders.Group.objects.get(name=builders.AUDITORS))
    client = client_of(auditor)
    for table in TABLES:
        assert theirs[table] in rows(client.get(f"{ADMIN}/{table}/"))
        path = f"{ADMIN}/{table}/{theirs[table].pk}/change/"
        assert client.get(path).status_code == 200
        assert client.post(path, {"name": "x"}).status_code == 403


def loan_form(shop, **more) -> dict:
    return {
        "lender": shop.teams["vision"].pk, "borrower": shop.teams["speech"].pk, "milli": 4000,
        "from_at_0": "2026-11-01", "from_at_1": "08:00:00",
        "until_at_0": "2099-12-01", "until_at_1": "08:00:00",
    } | more  # fmt: skip


def test_a_lead_lends_from_the_own_team_and_the_borrower_gives_it_back(
    shop, carol, dave, client_of
):
    client_of(carol).post(f"{ADMIN}/loan/add/", loan_form(shop))
    loan = Loan.objects.get()
    assert AuditEntry.objects.filter(verb="lend", actor="carol").exists()
    action = {"action": "give_back", "_selected_action": loan.pk}
    client_of(carol).post(f"{ADMIN}/loan/", action)
    loan.refresh_from_db()
    assert loan.ended_at is None
    client_of(dave).post(f"{ADMIN}/loan/", action)
    loan.refresh_from_db()
    assert loan.ended_at is not None


def test_a_lead_lends_nothing_of_another_team_and_no_more_than_there_is(shop, carol, client_of):
    speech = shop.teams["speech"].pk
    form = loan_form(shop, lender=speech, borrower=shop.teams["vision"].pk)
    assert b"Select a valid choice" in client_of(carol).post(f"{ADMIN}/loan/add/", form).content
    page = client_of(carol).post(f"{ADMIN}/loan/add/", loan_form(shop, milli=17_000)).content
    assert b"so it can lend 16, not 17" in page
    assert not Loan.objects.exists()


def test_a_weight_of_zero_is_refused_on_the_form(below, carol, client_of):
    form = {"team": below[0].pk, "nominal_milli": 1000, "weight": 0}
    page = client_of(carol).post(f"{ADMIN}/quota/add/", form).content.decode()
    assert "weight is 0; it is 1 or more" in page
