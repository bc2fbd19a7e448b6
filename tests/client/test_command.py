"""The gangway command against a portal that listens: each verb, and each way to fail."""

import json
import re
import stat
from pathlib import Path

import pytest

from portal.client import config, options
from portal.client.following import EXIT_CODES
from scheduling import cycle
from scheduling.models import AuditEntry, Job
from scheduling.states import DONE
from tests import builders

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.fixture
def node(shop):
    return builders.node("n1")


def test_login_keeps_a_token_for_its_owner_only_and_logout_ends_it(gangway, live_server, alice):
    ran = gangway(
        "login", "--url", live_server.url, "--user", "alice", "--password-stdin",
        stdin="alice-password-1\n",
    )  # fmt: skip

    assert (ran.code, ran.out) == (0, "")
    assert stat.S_IMODE(config.path().stat().st_mode) == 0o600
    assert "password" not in config.path().read_text()
    assert gangway("ls").code == 0
    token = config.load().token
    assert gangway("logout").code == 0 and not config.path().exists()
    config.save(config.Login(live_server.url, token))
    assert "token" in gangway("ls").err


def test_a_wrong_password_is_told_with_the_next_step(gangway, live_server, alice):
    ran = gangway(
        "login", "--url", live_server.url, "--user", "alice", "--password-stdin", stdin="no\n"
    )

    assert (ran.code, ran.out) == (1, "")
    assert "The name or the password is wrong." in ran.err and "Traceback" not in ran.err
    assert not config.path().exists()


def test_a_command_behind_the_dashes_reaches_the_job_unchanged(gangway, signed_in, node):
    ran = gangway("submit", "--gpus", "2", "--name", "first", "--", "sh", "-c", "echo 'a b' -- $X")

    job = Job.objects.get()
    assert (ran.code, ran.out) == (0, f"{job.pk}\n")
    assert job.command == "sh -c 'echo '\"'\"'a b'\"'\"' -- $X'"
    assert (job.gpus, job.name, job.team.name) == (2, "first", "vision")


def test_every_option_reaches_its_field(gangway, signed_in, node, monkeypatch):
    monkeypatch.setenv("FROM_HERE", "yes")
    ran = gangway(
        "submit", "--team", "vision", "--pool", "default", "--gpus", "2", "--nodes", "1",
        "--gpu-model", "H100", "--gpu-memory-gib", "40.5", "--cpus", "4", "--memory-gib", "16",
        "--disk-gib", "5", "--env", "A=b=c", "--env", "FROM_HERE", "--workdir", "/data",
        "--time-limit", "45m", "--priority", "low", "--launch", "per_gpu", "--device-ids", "index",
        "--grace", "30", "--signal", "USR1", "--no-requeue", "--json", "--", "true",
    )  # fmt: skip

    assert ran.code == 0, ran.err
    job = Job.objects.get()
    assert json.loads(ran.out)["id"] == job.pk
    assert job.env == {"A": "b=c", "FROM_HERE": "yes"}
    assert (job.gpu_model, job.gpu_memory_mib, job.cpus, job.memory_mib) == (
        "H100", 41472, 4, 16384,
    )  # fmt: skip
    assert (job.workdir, job.time_limit_s, job.priority_class.name) == ("/data", 2700, "low")
    assert (job.launch, job.device_ids, job.grace_s) == ("per_gpu", "index", 30)
    assert (job.stop_signal, job.requeue, job.disk_gib) == ("USR1", False, 5)


@pytest.mark.parametrize("way", ["file", "-f", "stdin", "dash"])
def test_a_script_is_sent_as_it_is(gangway, signed_in, node, tmp_path, way):
    text = "#!/usr/bin/env python3\nprint('\u00e4 \"quoted\"')\n"
    script = tmp_path / "job.py"
    script.write_text(text)
    argv = {"file": [str(script)], "-f": ["-f", str(script)], "stdin": [], "dash": ["-"]}[way]

    ran = gangway("submit", *argv, stdin=text)

    assert ran.code == 0, ran.err
    assert Job.objects.get().command == text


def test_a_job_is_listed_shown_held_released_and_cancelled(gangway, signed_in, node):
    job_id = gangway("submit", "--name", "\x1b[31mred", "--", "true").out.strip()

    listed = gangway("ls")
    assert job_id in listed.out and "\x1b" not in listed.out
    shown = gangway("show", job_id)
    assert "PENDING" in shown.out and "Waits:" in shown.out
    assert gangway("hold", job_id).err == f"Job {job_id} is HELD.\n"
    assert gangway("release", job_id).err == f"Job {job_id} is PENDING.\n"
    assert (
        gangway("cancel", job_id, "--reason", "wrong data").err == f"Job {job_id} is CANCELLED.\n"
    )
    assert AuditEntry.objects.filter(verb="cancel", reason="wrong data").exists()
    assert job_id not in gangway("ls").out
    assert json.loads(gangway("ls", "--all", "--json").out)[0]["state"] == "CANCELLED"
    assert json.loads(gangway("show", job_id, "--json").out)["done"] is True


def test_nodes_teams_and_tokens_are_listed(gangway, signed_in, node):
    assert re.search(r"n1 +default +up +ok +8 +8 +H100", gangway("nodes").out)
    assert re.search(r"vision +member +0 +16", gangway("teams").out)
    token = gangway("tokens", "create", "ci").out.strip()
    assert "ci" in gangway("tokens").out and token not in gangway("tokens").out
    assert gangway("tokens", "delete", token[:15]).code == 0
    assert "ci" not in gangway("tokens").out


@pytest.mark.parametrize("state", sorted(DONE))
def test_wait_ends_with_the_code_of_how_the_job_ended(gangway, signed_in, node, alice, state):
    job = builders.job(alice)
    Job.objects.filter(pk=job.pk).update(state=state, ended_at=job.submitted_at)

    ran = gangway("wait", str(job.pk))

    assert (ran.code, ran.out) == (EXIT_CODES[state], "")
    assert f"`{ran.code}`" in PAGE.read_text() and state in PAGE.read_text()


def test_wait_waits_with_growing_pauses(gangway, signed_in, node, alice, monkeypatch):
    job, slept = builders.job(alice), []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 4:
            Job.objects.filter(pk=job.pk).update(state="COMPLETED", ended_at=job.submitted_at)

    monkeypatch.setattr("portal.client.following.time.sleep", sleep)

    assert gangway("wait", str(job.pk)).code == 0
    assert slept == sorted(slept) and slept[0] < slept[-1] <= 2.0


def test_what_the_portal_refuses_is_told_field_by_field(gangway, signed_in, node):
    ran = gangway("submit", "--gpus", "3", "--nodes", "2", "--priority", "urgent", "--", "true")

    assert (ran.code, ran.out) == (1, "")
    assert "divisible by nodes" in ran.err


@pytest.mark.parametrize(
    "argv",
    [
        ("dance",),
        ("show", "x"),
        ("show",),
        ("submit", "--gpus", "two", "--", "true"),
        ("submit", "no-such-file.sh"),
        ("submit", "-f", "x.sh", "--", "true"),
        ("submit", "--env", "NOT_SET_HERE", "--", "true"),
        ("ls", "--", "true"),
        ("logs", "1", "--tail", "0"),
        ("login", "--url", "ftp://example.org"),
        ("login", "--url", "http://user:secret@example.org"),
        ("tokens", "create"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_a_sentence(gangway, signed_in, argv):
    ran = gangway(*argv)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err and "Traceback" not in ran.err


def test_with_several_teams_one_has_to_be_named(gangway, signed_in, shop, node):
    shop.teams["speech"].members.create(user=shop.users["alice"])

    ran = gangway("submit", "--", "true")

    assert ran.code == 2 and "speech, vision" in ran.err and "--team" in ran.err


def test_a_job_of_others_is_not_there(gangway, signed_in, node, bob):
    job = builders.job(bob)

    for verb in ("show", "logs", "cancel", "wait"):
        ran = gangway(verb, str(job.pk))
        assert ran.code == 1 and f"There is no job {job.pk}." in ran.err


def test_the_page_of_the_command_has_every_verb_and_option():
    page = PAGE.read_text()
    verbs = options.parser()._subparsers._group_actions[0].choices

    missing = [f"gangway {verb}" for verb in verbs if f"gangway {verb}" not in page]
    for parser in verbs.values():
        names = [name for action in parser._actions for name in action.option_strings]
        missing += [
            name for name in names if name not in ("-h", "--help") and f"`{name}" not in page
        ]
    assert missing == []


def test_explain_says_why_when_who_is_ahead_and_what_helps(gangway, signed_in, node, shop):
    builders.job(shop.users["alice"], gpus=6, time_limit_s=3600)
    cycle.serve()
    ahead = builders.job(shop.users["bob"], gpus=8)
    mine = builders.job(shop.users["alice"], gpus=4)
    cycle.serve()

    ran = gangway("explain", str(mine.pk))

    assert ran.code == 0
    assert "number 2 in its queue" in ran.out
    assert "Needs 4 H100; 2 are free." in ran.out
    assert "as the queue stands" in ran.out
    assert f"job {ahead.pk} of speech, submitted earlier" in ran.out
    assert "with time_limit" not in ran.out
    assert json.loads(gangway("explain", str(mine.pk), "--json").out)["ahead"]["count"] == 1


def test_a_preview_says_what_would_happen_and_submits_nothing(gangway, signed_in, node):
    now = gangway("submit", "--preview", "--gpus", "2", "--time-limit", "2h", "--", "true")
    never = gangway("submit", "--preview", "--gpus", "9", "--", "true")

    assert (now.code, never.code) == (0, 0)
    assert "now, on n1 (2)" in now.out and "4 GPU-hours" in now.out
    assert "no state of the machines could hold it" in never.out
    assert "the largest has 8" in never.out
    assert not Job.objects.exists()


def test_an_estimate_says_what_a_card_holds_and_what_to_ask_for(gangway, signed_in):
    ran = gangway("estimate", "7B", "--zero", "2", "--dp", "8", "--request-gib", "20")
    odd = gangway("estimate", "7B", "--zero", "4")

    assert ran.code == 0
    assert "22.75 GB a card fits one 80 GB card." in ran.out
    assert "Ask for 25 GiB a card." in ran.out and "less than 10 %" in ran.out
    assert "28.00 GB a step at most, 24.50 GB by a ring" in ran.out
    assert odd.code != 0 and "outside 0 to 3" in odd.err


def test_a_job_may_wait_for_a_time_and_for_other_jobs(gangway, signed_in, node):
    first = gangway("submit", "--", "true").out.strip()
    late = "2126-12-24T18:00+01:00"
    ran = gangway("submit", "--begin-at", late, "--after-any", f"#{first}", "--", "true")
    wrong = gangway("submit", "--after", "soon", "--", "true")

    job = Job.objects.latest("pk")
    assert ran.code == 0, ran.err
    assert (job.after, job.after_any, job.begin_at.hour) == ([int(first)], True, 17)
    assert wrong.code == 2 and "numbers of jobs" in wrong.err
