"""What a failed card cost is given back once, to the second, and for nothing else."""

from datetime import timedelta

import pytest

from nodes.models import HealthChange
from scheduling import accounts_check, credits, usage
from scheduling.models import Attempt, AuditEntry, UsageEntry, UsageSum
from tests import builders

from .test_usage import HOUR, NOON, ran

NOW = NOON + HOUR
GPU_HOUR = 3_600_000


@pytest.fixture
def node(shop):
    return builders.node("a")


def failed(user, *, gpus=2, hours=10.0, saved_h=None, interval_s=None) -> Attempt:
    """An attempt that ended at noon because its first card failed, charged in full."""
    part = ran(user, gpus=gpus, hours=hours)
    attempt, job = part.attempt, part.attempt.job
    attempt.outcome, attempt.ended_at = "card_failed", NOON
    attempt.lost_gpu_s = int(gpus * 3600 * (hours - (saved_h or 0)))
    if saved_h is not None:
        attempt.saved_at = NOON - HOUR * (hours - saved_h)
    attempt.save()
    type(job).objects.filter(pk=job.pk).update(checkpoint_interval_s=interval_s)
    usage.account(NOW)
    return attempt


def sick(attempt: Attempt, *, before=timedelta(minutes=1), **more) -> HealthChange:
    gpu = attempt.parts.get().leases.order_by("pk").first().card.gpu
    facts = {"gpu": gpu, "at": NOON - before, "was": "ok", "now": "failed", "rule": "xid-failed"}
    return HealthChange.objects.create(**{**facts, **more})


def back_gpu_h() -> float:
    entries = UsageEntry.objects.filter(kind="credit").values_list("milli_s", flat=True)
    return -sum(entries) / GPU_HOUR


def test_what_ran_since_the_last_checkpoint_is_given_back_once(alice, node):
    sick(failed(alice, saved_h=8))

    assert [credits.give(NOW) for _ in range(3)] == [1, 0, 0]

    assert back_gpu_h() == 2 * 2
    assert UsageSum.objects.get().milli_s == (2 * 10 - 4) * GPU_HOUR
    assert list(accounts_check.usage()) == []
    noted = AuditEntry.objects.get(verb="credit")
    assert noted.facts["milli_gpu_s"] == 4 * GPU_HOUR and "xid-failed" in noted.reason


@pytest.mark.parametrize(
    ("interval_s", "hours", "saved_h", "expected_h"),
    [
        (1800, 10, 8, 2 * 1),  # twice the declared half hour
        (1800, 10, None, 0),  # who never saved is not given more than who does
        (7200, 3, None, 2 * 3),  # its second save was not due yet
        (7200, 10, 9, 2 * 1),
        (None, 30, None, 0),
        (None, 30, 1, 2 * 24),
        (90 * 86400, 30, None, 0),
    ],
)
def test_a_credit_is_bounded(alice, node, interval_s, hours, saved_h, expected_h):
    sick(failed(alice, hours=hours, saved_h=saved_h, interval_s=interval_s))
    credits.give(NOW)
    assert back_gpu_h() == expected_h


def test_nothing_is_given_without_a_card_of_the_attempt_that_rules_failed(alice, node):
    attempt = failed(alice, saved_h=9)
    other = node.gpus.get(index=7)
    for more in (
        {"actor": "alice"},
        {"now": "degraded"},
        {"gpu": other},
        {"before": -HOUR},
        {"before": 11 * HOUR},
    ):
        sick(attempt, **more)
    assert credits.give(NOW) == 0

    sick(attempt)
    Attempt.objects.update(outcome="failed")
    assert credits.give(NOW) == 0
    Attempt.objects.update(outcome="card_failed")
    assert credits.give(NOW) == 1


def test_a_credit_is_never_more_than_was_charged(alice, node):
    attempt = failed(alice, hours=1, saved_h=0)
    Attempt.objects.update(lost_gpu_s=999_999_999)
    sick(attempt)
    credits.give(NOW)
    assert back_gpu_h() == 2
    assert UsageSum.objects.get().milli_s == 0
    assert usage.spent(NOW)[0].milli_s >= 0


def test_in_the_long_run_not_to_save_pays_no_more_than_to_save():
    interval_s, ends = 600, range(60, 12 * 3600, 60)  # the card may fail at any minute
    saver = sum(credits.seconds(t % interval_s, 1, interval_s, saved=t >= interval_s) for t in ends)
    never = sum(credits.seconds(t, 1, interval_s, saved=False) for t in ends)
    silent = sum(credits.seconds(t, 1, None, saved=False) for t in ends)
    assert silent <= never <= saver
