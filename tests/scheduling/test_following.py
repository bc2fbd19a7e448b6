"""A job may ask not to start before a time, nor before the end of others of its team."""

from datetime import timedelta

import pytest

from nodes import clock
from scheduling import cycle
from scheduling.errors import InvalidOrder
from scheduling.models import Job
from scheduling.orders import parse
from scheduling.reasons import sentences
from tests import builders

ORDER = {"team": "vision", "command": "true", "gpus": 1}


def served(job):
    cycle.serve(always=True)
    job.refresh_from_db()
    return job


def ended(job, state):
    Job.objects.filter(pk=job.pk).update(state=state, ended_at=clock.now())


def test_a_job_waits_until_the_time_it_asked_for_though_cards_are_free(alice):
    builders.node("a")
    at = clock.now() + timedelta(hours=2)
    job = served(builders.job(alice, begin_at=at))

    assert job.state == "PENDING"
    assert [reason["code"] for reason in job.reasons] == ["BeginTime"]
    assert job.start_from >= at.replace(second=0, microsecond=0)

    Job.objects.filter(pk=job.pk).update(begin_at=clock.now())
    assert served(job).state == "PLACED"


@pytest.mark.parametrize(
    ("end", "any_", "state"),
    [
        ("COMPLETED", False, "PLACED"),
        ("COMPLETED", True, "PLACED"),
        ("FAILED", True, "PLACED"),
        ("FAILED", False, "PENDING"),
    ],
)
def test_a_job_starts_after_those_it_follows(alice, end, any_, state):
    builders.node("a")
    first = builders.job(alice, gpus=2)
    second = builders.job(alice, after=(first.pk,), after_any=any_)

    assert served(second).state == "PENDING"
    assert sentences(second) == [f"It starts after job {first.pk}, not ended yet."]
    assert second.start_unsure == "dependency"

    ended(first, end)
    assert served(second).state == state
    if state == "PENDING":
        assert "there was none" in sentences(second)[0]


def test_a_job_of_another_team_cannot_be_followed_or_found_out(alice, bob):
    builders.node("a")
    foreign = builders.job(bob)

    for id in (foreign.pk, 999_999):
        with pytest.raises(InvalidOrder) as refused:
            builders.job(alice, after=(id,))
        assert f"no job {id} in team vision" in refused.value.fields["after"]


@pytest.mark.parametrize(
    ("sent", "jobs", "any_"),
    [
        ([3, 2, 2], (2, 3), False),
        ({"jobs": [2], "end": "any"}, (2,), True),
        ({"jobs": [2]}, (2,), False),
    ],
)
def test_after_is_a_list_or_says_how_they_may_end(sent, jobs, any_):
    order = parse(ORDER | {"after": sent})

    assert (order.after, order.after_any) == (jobs, any_)


@pytest.mark.parametrize(
    "fields",
    [
        {"after": 3},
        {"after": ["3"]},
        {"after": [True]},
        {"after": [0]},
        {"after": [2**70]},
        {"after": list(range(1, 102))},
        {"after": {"jobs": [1], "end": "maybe"}},
        {"after": {"job": [1]}},
        {"begin_at": "tomorrow"},
        {"begin_at": "2026-12-24T18:00:00"},
        {"begin_at": 17},
        {"begin_at": "0001-01-01T00:00:00+14:00"},
    ],
    ids=str,
)
def test_what_is_no_time_or_no_list_of_jobs_is_refused_by_name(fields):
    with pytest.raises(InvalidOrder) as refused:
        parse(ORDER | fields)

    assert refused.value.fields.keys() == fields.keys()
