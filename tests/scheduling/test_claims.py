"""What PostgreSQL itself refuses, whoever writes it: the ledger's promises with the code gone."""

import pytest
from django.db import IntegrityError, transaction

from nodes import clock
from scheduling import leases
from scheduling.models import Attempt, Card, Job, Lease, Part
from tests import builders


@pytest.fixture
def part(alice) -> Part:
    node = builders.node("a", cards=2)
    attempt = Attempt.objects.create(job=builders.row(alice), number=1, placed_at=clock.now())
    return Part.objects.create(
        attempt=attempt, node=node, ranks=1, cpus=1, memory_mib=1, port=29400
    )


def lease(part: Part, card: Card, **more) -> Lease:
    return Lease.objects.create(part=part, card=card, taken_at=clock.now(), **more)


def refused(make) -> bool:
    try:
        with transaction.atomic():
            make()
    except IntegrityError:
        return True
    return False


def test_a_card_has_one_live_exclusive_lease(part):
    card = Card.objects.first()
    first = lease(part, card)

    assert refused(lambda: lease(part, card))
    leases.free([first], at=clock.now())
    assert not refused(lambda: lease(part, card))


def test_a_card_is_in_one_mode_at_a_time(part):
    card = Card.objects.first()
    lease(part, card, mode="shared", milli=100)

    assert not refused(lambda: lease(part, card, mode="shared", milli=100))
    assert refused(lambda: lease(part, card, mode="exclusive"))
    assert refused(lambda: lease(part, card, mode="mig", unit="MIG-1"))


def test_a_slice_has_one_live_lease(part):
    one, two = Card.objects.all()
    lease(part, one, mode="mig", unit="MIG-1")

    assert refused(lambda: lease(part, two, mode="mig", unit="MIG-1"))


def test_shares_never_exceed_the_cards_limit_or_memory(part):
    card = Card.objects.first()

    assert refused(lambda: Card.objects.filter(pk=card.pk).update(held_milli=1001))
    assert refused(lambda: Card.objects.filter(pk=card.pk).update(held_mib=card.memory_mib + 1))


def test_taking_and_freeing_keeps_the_counters(part):
    card = Card.objects.first()
    leases.take(part, [card.pk], at=clock.now())
    card.refresh_from_db()
    assert (card.held_milli, card.held_mib) == (1000, card.memory_mib)

    for _ in range(2):
        leases.free(part.leases.all(), at=clock.now())

    card.refresh_from_db()
    assert (card.held_milli, card.held_mib) == (0, 0)


def test_a_gang_takes_all_its_cards_or_none(part):
    one, two = Card.objects.all()
    lease(part, two)

    assert refused(lambda: leases.take(part, [one.pk, two.pk], at=clock.now()))
    assert Lease.objects.filter(card=one).count() == 0


def test_a_port_has_one_live_part_on_a_node(part, alice):
    other = Attempt.objects.create(job=builders.row(alice), number=1, placed_at=clock.now())

    def same_port() -> None:
        Part.objects.create(
            attempt=other, node=part.node, ranks=1, cpus=1, memory_mib=1, port=part.port
        )

    assert refused(same_port)
    Part.objects.filter(pk=part.pk).update(gone_at=clock.now())
    assert not refused(same_port)


def test_a_job_has_one_live_attempt(part):
    job = part.attempt.job

    assert refused(lambda: Attempt.objects.create(job=job, number=2, placed_at=clock.now()))


def test_a_job_asks_at_least_one_gpu(alice):
    assert refused(lambda: builders.row(alice, gpus=0))
    assert Job.objects.count() == 0
