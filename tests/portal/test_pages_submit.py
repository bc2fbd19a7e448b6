"""The form: every field of an order, refusals on their fields, one job for one form."""

import threading

import pytest
from django.db import connection
from django.test import Client

from portal import form_fields
from portal.models import IdempotencyKey
from scheduling.models import Job
from scheduling.order_fields import FIELDS
from tests import builders

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>\u202e\"'&amp;{{ 7|add:7 }}\t\U0001f980 \x1b[31m"


@pytest.fixture
def nodes(shop):
    return builders.node("h01"), builders.node("h02")


def sent(**more: str) -> dict[str, str]:
    return {"team": "vision", "command": "true", "gpus": "1", "nodes": "1", "requeue": "on"} | more


def test_the_form_has_every_field_that_an_order_has():
    parts = {*form_fields.WITHIN, *form_fields.TOPOLOGY}
    wholes = {whole for whole, _ in form_fields.WITHIN.values()} | {"topology"}
    # A booking is run in from its own page.
    assert set(form_fields.NAMES) - parts | wholes == set(FIELDS) - {"reservation"}


def test_a_submitted_form_leads_to_its_job(nodes, alice, client_of):
    answer = client_of(alice).post("/jobs/new/", sent(name="vit", gpus="4", nodes="2"))
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.pk}/"
    assert (job.user, job.team.name, job.gpus, job.nodes) == (alice, "vision", 4, 2)


def test_every_field_reaches_the_job(nodes, alice, client_of):
    client_of(alice).post(
        "/jobs/new/",
        sent(
            workdir="/data/é",
            gpu_model="H100",
            gpu_memory_gib="40.5",
            cpus="8",
            memory_gib="64",
            disk_gib="10",
            time_limit="2h30m",
            priority="low",
            grace_s="90",
            signal="USR1",
            gpu_memory_limit_gib="60",
            level="node",
            nearness="required",
            tp="1",
            launch="per_gpu",
            device_ids="index",
            requeue="",
            env='A=1\r\nB="two\\nlines"\r\nC= spaced \r\n',
        ),
    )
    job = Job.objects.get()
    assert job.workdir == "/data/é" and job.gpu_memory_mib == 41472
    assert (job.cpus, job.memory_mib, job.disk_gib) == (8, 65536, 10)
    assert (job.time_limit_s, job.grace_s, job.stop_signal) == (9000, 90, "USR1")
    assert (job.launch, job.device_ids, job.requeue) == ("per_gpu", "index", False)
    assert job.env == {"A": "1", "B": "two\nlines", "C": " spaced "}
    assert job.priority_class.name == "low"
    assert (job.topology_level, job.topology_required) == ("node", True)
    assert job.parallelism == {"tp": 1, "pp": 1, "dp": 1}
    assert job.gpu_memory_limit_mib == 60 * 1024


def test_a_job_may_wait_for_a_time_and_for_jobs_and_its_copy_does_too(nodes, alice, client_of):
    first = builders.job(alice)
    client_of(alice).post(
        "/jobs/new/", sent(begin_at="2126-12-24T18:00+01:00", after=f"any #{first.pk}")
    )
    job = Job.objects.latest("pk")
    assert (job.after, job.after_any, job.begin_at.hour) == ([first.pk], True, 17)

    shown = client_of(alice).get(f"/jobs/{job.pk}/").content.decode()
    assert "Not before" in shown and f'href="/jobs/{first.pk}/"' in shown
    form = client_of(alice).get("/jobs/new/", {"from": job.pk}).context["form"]
    assert form.values["after"] == f"any {first.pk}"
    client_of(alice).post("/jobs/new/", form.values)
    copy = Job.objects.latest("pk")
    assert (copy.after, copy.after_any, copy.begin_at) == (job.after, True, job.begin_at)
    refused = client_of(alice).post("/jobs/new/", sent(after="soon"))
    assert refused.status_code == 422 and "by their numbers" in refused.content.decode()


def test_a_command_keeps_every_sign_but_the_browsers_line_ends(nodes, alice, client_of):
    command = "#!/bin/sh\n\necho \"it's $HOME\" \\\n  'x'\t# é\n"
    client_of(alice).post("/jobs/new/", sent(command=command.replace("\n", "\r\n")))
    assert Job.objects.get().command == command


def test_a_copied_job_submits_the_same_order(nodes, alice, client_of):
    odd = {"A": 'quote" and \\', "B": "two\nlines", "C": '"quoted"', "D": " é "}
    first = builders.job(
        alice,
        gpus=2,
        nodes=2,
        command="line\n\n  two\n",
        env=odd,
        time_limit_s=4500,
        gpu_memory_mib=512,
        stop_signal="INT",
        requeue=False,
        launch="per_gpu",
    )
    form = client_of(alice).get("/jobs/new/", {"from": first.pk}).context["form"]
    answer = client_of(alice).post("/jobs/new/", form.values)
    copy = Job.objects.get(pk=int(answer["Location"].split("/")[2]))
    kept = [name for name in vars(first) if name not in ("id", "_state", "submitted_at")]
    assert {name: getattr(copy, name) for name in kept} == {
        name: getattr(Job.objects.get(pk=first.pk), name) for name in kept
    }


def test_a_link_may_change_single_fields_of_a_copy(nodes, alice, client_of):
    first = builders.job(alice, gpus=8)
    wanted = {"from": first.pk, "gpus": "4", "csrf": "x"}
    form = client_of(alice).get("/jobs/new/", wanted).context["form"]
    assert form.values["gpus"] == "4" and form.values["command"] == "true"


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"gpus": ""}, "gpus", "missing"),
        ({"gpus": "two"}, "gpus", "whole number"),
        ({"gpus": "1.5"}, "gpus", "not a whole number"),
        ({"gpus": "9" * 400}, "gpus", "outside"),
        ({"gpus": "5", "nodes": "2"}, "nodes", "shared equally"),
        ({"command": "  "}, "command", "empty"),
        ({"command": "a\0b"}, "command", "NUL"),
        ({"command": "x" * 262145}, "command", "262145 bytes"),
        ({"team": ""}, "team", "Choose the team"),
        ({"team": "speech"}, "team", "no team"),
        ({"team": "nowhere"}, "team", "no team"),
        ({"team": "a\0"}, "team", "no team"),
        ({"workdir": "data/vit"}, "workdir", "full path"),
        ({"env": "A=1\nB=2\nA=3"}, "env", "Line 3 gives A a second time"),
        ({"pool": "nowhere"}, "pool", "no pool"),
        ({"env": "NOT A PAIR"}, "env", "Line 1 has no"),
        ({"env": "1X=2"}, "env", "not a name"),
        ({"env": 'A="broken'}, "env", "not JSON"),
        ({"time_limit": "soon"}, "time_limit", "such as 90s"),
        ({"time_limit": "30d"}, "time_limit", "168 h"),
        ({"grace_s": "9999999"}, "grace_s", "outside"),
        ({"grace_s": "4000"}, "grace_s", "5 to 600 s"),
        ({"signal": "KILL"}, "grace_s", "not one of"),
        ({"launch": "twice"}, "launch", "not one of"),
        ({"name": "x" * 201}, "name", "201 characters"),
    ],
)
def test_a_refusal_stands_at_its_field_and_in_the_summary(
    wrong, field, words, nodes, alice, client_of
):
    answer = client_of(alice).post("/jobs/new/", sent(**wrong))
    page = answer.content.decode()
    assert answer.status_code == 422 and not Job.objects.exists()
    assert words in answer.context["form"].errors[field]
    assert f'<a href="#{field}">' in page and f'id="{field}-error"' in page


def test_everything_that_is_wrong_is_told_at_once(nodes, alice, client_of):
    answer = client_of(alice).post("/jobs/new/", sent(team="speech", gpus="x", env="y", command=""))
    assert set(answer.context["form"].errors) == {"team", "gpus", "env", "command"}


def test_what_never_fits_is_refused_with_the_largest_that_could(nodes, alice, client_of):
    answer = client_of(alice).post("/jobs/new/", sent(gpus="9"))
    page = answer.content.decode()
    assert answer.status_code == 422 and "the largest has 8" in page


def test_what_was_typed_is_still_there_after_a_refusal(nodes, alice, client_of):
    page = client_of(alice).post("/jobs/new/", sent(command="keep <me>", gpus="x")).content.decode()
    assert "keep &lt;me&gt;" in page


def test_a_double_submit_lands_on_the_same_job(nodes, alice, client_of):
    client = client_of(alice)
    form = sent(key="one-form")
    first, second = client.post("/jobs/new/", form), client.post("/jobs/new/", form)
    assert first["Location"] == second["Location"]
    assert Job.objects.count() == 1


def test_a_key_with_a_nul_is_a_key_all_the_same(nodes, alice, client_of):
    pages = [client_of(alice).post("/jobs/new/", sent(key="a\0b")) for _ in range(2)]
    assert pages[0]["Location"] == pages[1]["Location"]


def test_a_key_is_each_persons_own(nodes, alice, bob, client_of):
    client_of(alice).post("/jobs/new/", sent(key="one-form"))
    client_of(bob).post("/jobs/new/", sent(key="one-form", team="speech"))
    assert Job.objects.count() == 2


def test_a_refused_form_may_be_sent_again_with_its_key(nodes, alice, client_of):
    client = client_of(alice)
    client.post("/jobs/new/", sent(key="one-form", gpus="x"))
    assert not IdempotencyKey.objects.exists()
    client.post("/jobs/new/", sent(key="one-form"))
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_submits_at_the_same_time_make_one_job(nodes, alice):
    clients = [Client() for _ in range(4)]
    for client in clients:
        client.force_login(alice)
    places: list[str] = []

    def submit(client: Client) -> None:
        places.append(client.post("/jobs/new/", sent(key="one-form"))["Location"])
        connection.close()

    threads = [threading.Thread(target=submit, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert Job.objects.count() == 1 and places == [f"/jobs/{Job.objects.get().pk}/"] * 4


def test_hostile_text_is_shown_and_never_run(nodes, alice, root, client_of):
    job = builders.job(
        alice,
        name=HOSTILE,
        command=f"{HOSTILE}\n</pre></textarea>",
        workdir=f"/{HOSTILE}",
        env={"X": HOSTILE},
    )
    for user in (alice, root):
        for path in ("/", "/jobs/", f"/jobs/{job.pk}/", f"/jobs/{job.pk}/cancel/", "/nodes/"):
            page = client_of(user).get(path).content.decode()
            assert "<script>alert" not in page and "14\t" not in page
            assert "\u202e" not in page or "<bdi>" in page or 'dir="auto"' in page
    form = client_of(alice).get("/jobs/new/", {"from": job.pk}).content.decode()
    assert "<script>alert" not in form and form.count("</textarea>") == 3
