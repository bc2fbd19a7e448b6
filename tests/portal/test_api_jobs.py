"""Jobs over the API: one story for each route, told by the people of tests.conftest."""

import json

import pytest

from scheduling import leases, queries
from scheduling.actors import CYCLE
from scheduling.models import Attempt, AuditEntry, Job, JobLog, LogPiece, Part
from scheduling.states import JobEvent
from scheduling.transitions import move
from tests import builders
from tests.portal.api_door import door

pytestmark = pytest.mark.django_db

ORDER = {"team": "vision", "command": "nvidia-smi", "gpus": 2, "name": "first", "env": {"A": "1"}}


@pytest.fixture
def node(shop):
    return builders.node("n1")


def place(job, node, *, cards=1, port=29400):
    """What the cycle would do: an attempt with one part that holds the node's first cards."""
    at = job.submitted_at
    move(CYCLE, job, JobEvent.PLACE, at=at, note="")
    attempt = Attempt.objects.create(job=job, number=1, placed_at=at)
    part = Part.objects.create(
        attempt=attempt, node=node, ranks=cards, cpus=8, memory_mib=1024, port=port
    )
    free = node.gpus.filter(card__held_milli=0).order_by("index")[:cards]
    leases.take(part, [gpu.card.pk for gpu in free], at=at)
    return part


def test_a_job_is_accepted_with_its_address_and_can_be_read_there(alice, node):
    accepted = door(alice).post("jobs", ORDER)

    assert accepted.status_code == 201
    job = door(alice).get(accepted["Location"]).json()
    assert job == accepted.json()
    assert (job["state"], job["team"], job["gpus"], job["env"]) == (
        "PENDING",
        "vision",
        2,
        {"A": "1"},
    )
    assert job["reasons"][0]["code"] == "NotEvaluated" and job["reasons"][0]["sentence"]


def test_every_field_of_an_order_comes_back_as_it_was_sent(alice, node):
    sent = {
        "team": "vision", "pool": "default", "name": 'vit "l"\t', "command": "#!/bin/sh\n'a'\n",
        "workdir": "/data/vit", "env": {"SEED": "1\n2"}, "gpus": 2, "nodes": 1, "gpu_model": "H100",
        "gpu_memory_gib": 70, "cpus": 8, "memory_gib": 64, "disk_gib": 20, "labels": {},
        "launch": "per_gpu", "device_ids": "index", "priority": "low", "requeue": False,
        "checkpoint": {"signal": "USR1", "grace_s": 120},
    }  # fmt: skip

    job = door(alice).post("jobs", {**sent, "time_limit": "2h"}).json()

    assert {name: job[name] for name in sent} == sent
    assert job["time_limit_s"] == 7200


def test_a_placed_job_names_its_node_and_its_cards(alice, node):
    job = builders.job(alice, gpus=2)
    place(job, node, cards=2)

    shown = door(alice).get(f"jobs/{job.pk}").json()

    (part,) = shown["placement"]
    assert part["node"] == "n1"
    assert [(gpu["uuid"], gpu["index"], gpu["model"]) for gpu in part["gpus"]] == [
        ("GPU-n1-0", 0, "H100"),
        ("GPU-n1-1", 1, "H100"),
    ]
    assert shown["attempt"] == 1 and shown["attempts"][0]["run_id"].startswith(f"{job.pk}-1-")


def test_the_list_is_filtered_by_state_team_and_owner(shop, alice, carol, root, node):
    mine, hers = builders.job(alice), builders.job(carol)
    other = builders.job(shop.users["bob"])
    door(alice).post(f"jobs/{mine.pk}/hold")

    def ids(person, query):
        return [job["id"] for job in door(person).get(f"jobs?{query}").json()["results"]]

    assert ids(alice, "") == [hers.pk, mine.pk]
    assert ids(alice, "mine=true") == [mine.pk]
    assert ids(alice, "state=held,running") == [mine.pk]
    assert ids(alice, "state=active") == [hers.pk, mine.pk]
    assert ids(root, "team=speech") == [other.pk]
    assert ids(alice, "team=speech") == []


def test_pages_follow_their_cursor_and_no_job_is_missed_or_told_twice(alice, node):
    made = [builders.job(alice).pk for _ in range(5)]
    seen, cursor = [], ""
    while cursor is not None:
        page = door(alice).get(f"jobs?limit=2&cursor={cursor}").json()
        seen += [job["id"] for job in page["results"]]
        cursor = page["next_cursor"]
        builders.job(alice)  # newer ones do not move the pages

    assert seen == made[::-1]


def test_a_misspelt_parameter_is_named_with_the_valid_ones(alice):
    refused = door(alice).get("jobs?sate=RUNNING")

    assert refused.status_code == 400
    assert "Valid: state, team, mine, cursor, limit." in refused.json()["fields"]["sate"]


def test_cancel_ends_a_waiting_job_and_keeps_the_reason(alice, node):
    job = builders.job(alice)

    answer = door(alice).post(f"jobs/{job.pk}/cancel", {"reason": "wrong data"})

    assert (answer.status_code, answer.json()["state"]) == (200, "CANCELLED")
    assert answer.json()["done"] is True
    assert AuditEntry.objects.filter(verb="cancel", reason="wrong data", user=alice).exists()


def test_an_ended_job_cannot_be_cancelled_and_the_refusal_says_so(alice, node):
    job = builders.job(alice)
    door(alice).post(f"jobs/{job.pk}/cancel")

    again = door(alice).post(f"jobs/{job.pk}/cancel")

    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
    assert "CANCELLED" in again.json()["detail"]


def test_hold_keeps_a_job_and_release_lets_it_wait_again(alice, node):
    job = builders.job(alice)

    assert door(alice).post(f"jobs/{job.pk}/hold").json()["state"] == "HELD"
    assert door(alice).post(f"jobs/{job.pk}/release").json()["state"] == "PENDING"
    assert [entry.event for entry in JobLog.objects.filter(job=job)][-2:] == ["hold", "release"]


def test_a_waiting_job_is_explained_by_code_numbers_and_sentence(alice, node):
    job = builders.job(alice)
    numbers = {"what": "gpus", "asked": 8, "free": 3}
    Job.objects.filter(pk=job.pk).update(reasons=[{"code": "Resources", "numbers": numbers}])

    (reason,) = door(alice).get(f"jobs/{job.pk}/explain").json()["reasons"]

    assert (reason["code"], reason["numbers"]) == ("Resources", numbers)
    assert "8" in reason["sentence"] and "3" in reason["sentence"]


def test_attempts_tell_when_and_how_each_run_ended(alice, node):
    job = builders.job(alice)
    part = place(job, node)
    Part.objects.filter(pk=part.pk).update(exit_code=3, failed_rank=0, gone_at=job.submitted_at)
    Attempt.objects.update(outcome="failed", ended_at=job.submitted_at)
    Job.objects.filter(pk=job.pk).update(state="FAILED", ended_at=job.submitted_at)

    (attempt,) = door(alice).get(f"jobs/{job.pk}/attempts").json()["results"]
    shown = door(alice).get(f"jobs/{job.pk}").json()

    assert (attempt["outcome"], attempt["parts"][0]["exit_code"]) == ("failed", 3)
    assert (shown["exit_code"], shown["next_step"]) == (3, "Read the end of its log.")


def test_a_kept_log_is_read_byte_for_byte_with_the_place_to_read_on(alice, node):
    job = builders.job(alice)
    part = place(job, node)
    raw = bytes(range(256)) * 4
    LogPiece.objects.create(attempt=part.attempt, rank=0, offset=0, data=raw)
    Attempt.objects.update(ended_at=job.submitted_at)

    first = door(alice).get(f"jobs/{job.pk}/log?limit=1000")
    rest = door(alice).get(f"jobs/{job.pk}/log?offset={first['X-Next-Offset']}")
    tail = door(alice).get(f"jobs/{job.pk}/log?offset=-3")

    assert first["Content-Type"] == "application/octet-stream"
    assert first.content + rest.content == raw and tail.content == raw[-3:]
    assert (first["X-Log-Ended"], rest["X-Log-Ended"]) == ("false", "true")
    assert (first["X-Attempt"], first["X-Log-Size"]) == ("1", "1024")


def test_a_job_that_never_ran_has_an_empty_log(alice, node):
    job = builders.job(alice)

    log = door(alice).get(f"jobs/{job.pk}/log")

    assert (log.status_code, log.content, log["X-Attempt"]) == (200, b"", "")
    assert log["X-Log-Ended"] == "false"


def test_a_list_costs_the_same_number_of_queries_for_one_job_as_for_thirty(
    alice, node, django_assert_num_queries, django_assert_max_num_queries
):
    for port in range(29400, 29403):
        place(builders.job(alice), node, port=port)
    reader = door(alice)
    with django_assert_max_num_queries(14) as few:
        assert len(reader.get("jobs?limit=1").json()["results"]) == 1
    for _ in range(27):
        builders.job(alice)

    with django_assert_num_queries(len(few)):
        assert len(reader.get("jobs").json()["results"]) == 30


def test_who_has_the_newest_answer_gets_304_until_it_changes(alice, node):
    job = builders.job(alice)
    reader = door(alice)
    for route in (f"jobs/{job.pk}", "jobs", "nodes", "teams", "gpus", "me"):
        tag = reader.get(route)["ETag"]
        same = reader.get(route, headers={"If-None-Match": tag})
        assert (same.status_code, same.content) == (304, b""), route

    tag = reader.get(f"jobs/{job.pk}")["ETag"]
    reader.post(f"jobs/{job.pk}/hold")
    assert reader.get(f"jobs/{job.pk}", headers={"If-None-Match": tag}).status_code == 200


def test_what_the_list_shows_is_what_the_queries_show(root, alice, node):
    builders.job(alice)

    (listed,) = door(root).get("jobs").json()["results"]

    (known,) = queries.jobs(queries.Viewer(root.pk, None))
    assert listed["id"] == known.pk and "command" not in listed
    assert json.dumps(listed)
