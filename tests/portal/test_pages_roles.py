"""Who may see and do what on pages: a table of role × action, and nothing beside it."""

import pytest
from django.test import Client

from nodes.models import Node
from scheduling.models import AuditEntry, Job
from scheduling.states import JobState
from tests import builders
from tests.portal import story

pytestmark = pytest.mark.django_db

SEEN, HIDDEN, REFUSED, DONE = 200, 404, 403, 302


@pytest.fixture
def job(shop, alice):
    """Alice's, of team vision; it waits, since there is room for nothing."""
    builders.node("h01")
    return builders.job(alice, name="hers", gpus=1)


@pytest.fixture
def people(shop):
    other = builders.User.objects.create_user("erin")
    builders.Member.objects.create(team=shop.teams["vision"], user=other)
    auditor = builders.User.objects.create_user("audrey")
    auditor.groups.add(builders.Group.objects.get(name=builders.AUDITORS))
    left = builders.User.objects.create_user("lena")
    return shop.users | {"erin": other, "audrey": auditor, "lena": left}


WHO = ("alice", "carol", "root", "erin", "audrey", "bob", "dave", "lena")
TABLE = {
    # act:             owner  lead   oper.  mate     auditor  strangers
    ("get", ""): (SEEN, SEEN, SEEN, SEEN, SEEN, HIDDEN, HIDDEN, HIDDEN),
    ("get", "log"): (SEEN, SEEN, SEEN, SEEN, SEEN, HIDDEN, HIDDEN, HIDDEN),
    ("get", "cancel/"): (SEEN, SEEN, SEEN, REFUSED, REFUSED, HIDDEN, HIDDEN, HIDDEN),
    ("post", "cancel/"): (DONE, DONE, DONE, REFUSED, REFUSED, HIDDEN, HIDDEN, HIDDEN),
    ("post", "hold/"): (DONE, DONE, DONE, REFUSED, REFUSED, HIDDEN, HIDDEN, HIDDEN),
    ("post", "release/"): (DONE, DONE, DONE, REFUSED, REFUSED, HIDDEN, HIDDEN, HIDDEN),
}
CASES = [
    (verb, act, who, status)
    for (verb, act), row in TABLE.items()
    for who, status in zip(WHO, row, strict=True)
]


@pytest.mark.parametrize(("verb", "act", "who", "status"), CASES)
def test_each_role_may_do_what_the_table_says(verb, act, who, status, job, people, client_of):
    before = JobState(job.state)
    answer = getattr(client_of(people[who]), verb)(f"/jobs/{job.pk}/{act}")
    assert answer.status_code == status
    if status == HIDDEN:
        assert b"hers" not in answer.content
    if verb == "post" and status != DONE:
        assert Job.objects.get(pk=job.pk).state == before


def test_a_former_member_may_do_nothing_to_the_jobs_they_left(job, alice, client_of):
    alice.memberships.all().delete()
    assert client_of(alice).get(f"/jobs/{job.pk}/").status_code == HIDDEN
    assert client_of(alice).post(f"/jobs/{job.pk}/cancel/").status_code == HIDDEN


def test_a_missing_job_and_a_foreign_one_look_the_same(job, bob, client_of):
    client = client_of(bob)
    foreign, missing = client.get(f"/jobs/{job.pk}/"), client.get("/jobs/999999/")
    assert foreign.status_code == missing.status_code == 404
    assert foreign.content.replace(str(job.pk).encode(), b"") == missing.content.replace(
        b"999999", b""
    )


def test_a_foreign_job_is_in_no_list_and_fills_no_form(job, bob, client_of):
    client = client_of(bob)
    for path in ("/", "/jobs/", "/jobs/?whose=vision", "/jobs/?state=waiting"):
        assert b"hers" not in client.get(path).content
    assert client.get("/jobs/new/", {"from": job.pk}).status_code == HIDDEN


PAGES = ("/", "/jobs/", "/jobs/new/", "/nodes/", "/nodes/h01/", "/find/?q=1", "/admin/")


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_every_page_leads_to_the_sign_in(path, db):
    answer = Client().get(path, follow=True)
    assert answer.redirect_chain[-1][0].startswith("/signin/?next=")
    assert b"Sign in to share the GPUs." in answer.content


def test_a_part_whose_session_is_gone_reloads_its_page(db):
    answer = Client().get("/", {"part": "1"}, headers={"HX-Request": "true"})
    assert answer.status_code == 401 and answer["HX-Refresh"] == "true"


@pytest.mark.parametrize("path", ["/jobs/{job}/cancel/", "/jobs/{job}/hold/", "/jobs/new/"])
def test_a_post_without_its_token_does_nothing(path, job, alice):
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post(path.format(job=job.pk), {"team": "vision", "command": "x", "gpus": "1"})
    assert answer.status_code == REFUSED and b"Nothing was done" in answer.content
    assert Job.objects.get().state == JobState.PENDING


@pytest.mark.parametrize("path", ["cancel", "hold", "release"])
def test_an_act_is_never_a_get(path, job, alice, client_of):
    client_of(alice).get(f"/jobs/{job.pk}/{path}/")
    assert Job.objects.get().state == JobState.PENDING


@pytest.mark.parametrize(
    ("who", "status"), [("root", DONE), ("carol", REFUSED), ("audrey", REFUSED)]
)
def test_only_operators_change_what_a_node_does(who, status, job, people, client_of):
    Node.objects.update(alarm="another key")
    client = client_of(people[who])
    answer = client.post("/nodes/h01/work/", {"accepts": "no", "reason": "fan"})
    assert answer.status_code == status
    assert client.post("/nodes/h01/alarm/", {"reason": "new disk"}).status_code == status
    node = Node.objects.get()
    assert node.accepts_work is (status != DONE) and bool(node.alarm) is (status != DONE)
    noted = AuditEntry.objects.filter(subject="node h01", reason="fan").exists()
    assert noted is (status == DONE)


def test_an_alarm_is_not_cleared_without_a_reason(job, root, client_of):
    Node.objects.update(alarm="another key")
    page = client_of(root).post("/nodes/h01/alarm/", {"reason": "  "}, follow=True)
    assert b"The alarm stays." in page.content
    assert Node.objects.get().alarm == "another key"


def test_keys_of_nodes_are_for_operators(job, root, carol, client_of):
    assert b"restrict ssh-ed25519 BBBB" in client_of(root).get("/nodes/h01/").content
    for user in (root, carol):
        assert b"sealed" not in client_of(user).get("/nodes/h01/").content
    assert b"ssh-ed25519" not in client_of(carol).get("/nodes/h01/").content


def test_a_cancel_says_what_is_lost_and_who_did_it_is_noted(job, carol, client_of):
    story.running(job)
    question = client_of(carol).get(f"/jobs/{job.pk}/cancel/").content.decode()
    assert "GPU-hours</b> are lost: 1 card for" in question
    client_of(carol).post(f"/jobs/{job.pk}/cancel/", {"reason": "wrong data"})
    assert Job.objects.get().state == JobState.STOPPING
    entry = AuditEntry.objects.get(verb="cancel")
    assert (entry.actor, entry.reason) == ("carol", "wrong data")


def test_an_act_that_comes_too_late_is_told_on_the_page(job, alice, client_of):
    story.running(job)
    page = client_of(alice).post(f"/jobs/{job.pk}/hold/", follow=True).content.decode()
    assert "hold is not possible" in page and "Cancel it instead." in page
