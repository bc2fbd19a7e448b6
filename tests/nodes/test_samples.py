"""What each probe read is kept for a day, in a table of days that are dropped whole."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from nodes import clock, samples
from nodes.models import HealthSample
from tests import builders

from .test_conditions import probe

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def node(shop):
    return builders.node("a")


def lies_in(sample: HealthSample) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tableoid::regclass FROM nodes_healthsample WHERE id = %s", [sample.pk]
        )
        return cursor.fetchone()[0].removeprefix(f"{samples.TABLE}_")


def test_a_probe_is_one_row_with_what_its_cards_said(node):
    probe(node, gpu3={"temperature_c": 91})
    sample = HealthSample.objects.get()
    assert sample.node == node and len(sample.cards) == 8
    assert sample.cards[node.gpus.get(index=3).uuid]["temperature_c"] == 91


def test_a_sample_lies_in_the_partition_of_its_day_once_that_was_made(node):
    now = clock.now()
    samples.tend(now)
    samples.tend(now)
    for days in (1, samples.AHEAD_DAYS):
        at = now + days * DAY
        made = HealthSample.objects.create(node=node, at=at, cards={})
        assert lies_in(made) == f"{at.astimezone(UTC):%Y%m%d}"


def test_days_are_dropped_only_when_all_of_them_is_older_than_a_day(node):
    now = datetime(2031, 5, 10, 6, tzinfo=UTC)
    samples.tend(now)
    day = now.date() + DAY
    late = HealthSample.objects.create(node=node, at=now + DAY, cards={})
    connection.check_constraints()  # as at the end of a transaction

    samples.tend(now + 2 * DAY)
    assert day in samples.partitions() and HealthSample.objects.filter(pk=late.pk).exists()
    samples.tend(now + 3 * DAY)
    assert day not in samples.partitions()
    assert not HealthSample.objects.filter(pk=late.pk).exists()


def test_a_day_nobody_made_in_time_loses_no_sample_and_is_emptied_too(node):
    at = datetime(2032, 1, 1, tzinfo=UTC)
    made = HealthSample.objects.create(node=node, at=at, cards={})
    assert lies_in(made) == "default"
    samples.tend(at + DAY)
    assert HealthSample.objects.filter(pk=made.pk).exists()
    samples.tend(at + DAY + timedelta(seconds=1))
    assert not HealthSample.objects.filter(pk=made.pk).exists()
