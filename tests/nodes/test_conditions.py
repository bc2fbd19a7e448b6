"""From probes to verdicts in rows: noted, bounded, overridden by a person, given back by one."""

from datetime import timedelta

import pytest

from nodes import clock
from nodes.inventory import take_in
from nodes.models import Gpu, HealthChange, Wake
from scheduling import cycle
from scheduling.actors import person
from scheduling.errors import InvalidOrder, WrongState
from scheduling.models import AuditEntry, Card
from scheduling.services import health
from tests import builders

pytestmark = pytest.mark.django_db


def card(gpu: Gpu, **facts: object) -> dict[str, object]:
    usual = {"uuid": gpu.uuid, "index": gpu.index, "model": gpu.product, "used_mib": 0}
    slot = f"00000000:{0x18 + gpu.index:02X}:00.0"
    usual |= {"memory_mib": gpu.memory_mib, "pci_bus_id": slot, "processes": [], "errors": {}}
    return {**usual, **facts}


def probe(node, *, lines=(), boot="boot-1", without=(), **by_index) -> bool:
    """One probe; ``by_index`` such as gpu3={...} sets facts of a card."""
    cards = [
        card(gpu, **by_index.get(f"gpu{gpu.index}", {}))
        for gpu in node.gpus.order_by("index")
        if gpu.index not in without
    ]
    sizes = {"cpus": node.cpus, "memory_mib": node.memory_mib, "disk_total_gib": node.disk_gib}
    kernel = {"cursor": 5, "lines": list(lines), "error": None}
    answer = {
        "v": 1, "nvml_error": None, "gpus": cards, "node": {"boot_id": boot, **sizes},
        "kernel": kernel,
    }  # fmt: skip
    return take_in(node, answer, at=clock.now())


def verdicts(node) -> list[str]:
    return list(node.gpus.order_by("index").values_list("health", flat=True))


def xid(index: int, number: int) -> str:
    return f"NVRM: Xid (PCI:0000:{0x18 + index:02x}:00): {number}, pid=7, words"


@pytest.fixture
def node(shop):
    made = builders.node("a")
    probe(made)
    return made


def test_one_card_fails_and_its_neighbours_go_on(node, alice):
    Wake.objects.all().delete()
    assert probe(node, lines=[xid(3, 79)])

    assert verdicts(node) == ["ok"] * 3 + ["failed"] + ["ok"] * 4
    change = HealthChange.objects.get()
    assert (change.was, change.now, change.rule) == ("ok", "failed", "xid-failed")
    assert "Xid 79" in change.evidence and Wake.objects.exists()
    job = builders.job(alice, gpus=7)
    cycle.serve()
    job.refresh_from_db()
    assert job.state == "PLACED"
    assert not Card.objects.get(gpu__node=node, gpu__index=3).leases.exists()


def test_the_same_verdict_again_is_no_change(node):
    probe(node, lines=[xid(3, 79)])
    assert not probe(node)
    assert HealthChange.objects.count() == 1


def test_a_card_that_vanished_is_failed_and_still_shown(node, alice, client_of):
    probe(node, without=(2,))
    assert verdicts(node)[2] == "ok"  # once is not yet a fault
    probe(node, without=(2,))
    assert verdicts(node)[2] == "failed"
    page = client_of(alice).get("/nodes/a/").content.decode()
    assert "GPU 2 is failed" in page and "card-gone" in page

    probe(node)
    probe(node)
    assert verdicts(node)[2] == "ok"


def test_counters_of_another_boot_are_no_fault(node):
    probe(node, gpu1={"ecc_uncorrected": 4})
    probe(node, boot="boot-2", gpu1={"ecc_uncorrected": 9})
    assert verdicts(node)[1] == "ok"
    probe(node, boot="boot-2", gpu1={"ecc_uncorrected": 10})
    assert verdicts(node)[1] == "degraded"


def test_rules_by_themselves_fail_one_card_in_ten(node, shop):
    """Eight cards: one may fail; the next waits for a person, and gets no work meanwhile."""
    probe(node, lines=[xid(n, 79) for n in range(4)])
    assert verdicts(node)[:4] == ["failed", "degraded", "degraded", "degraded"]
    assert "a person decides" in node.gpus.get(index=1).health_evidence


def test_a_card_that_is_watched_gets_work_last(node, alice):
    probe(node, lines=[xid(0, 92)])
    assert verdicts(node)[0] == "watch"
    seven = builders.job(alice, gpus=7)
    cycle.serve()
    seven.refresh_from_db()
    watched = Card.objects.get(gpu__node=node, gpu__index=0)
    assert seven.state == "PLACED" and not watched.leases.exists()

    builders.job(alice, gpus=1)
    cycle.serve()
    assert watched.leases.exists()


def test_a_persons_verdict_stands_until_its_date(node, root):
    gpu, now = node.gpus.get(index=3), clock.now()
    health.override(
        person(root), gpu, "ok", until=now + timedelta(hours=1), reason="bad sensor", at=now
    )
    probe(node, lines=[xid(3, 79)])
    assert verdicts(node)[3] == "ok"

    Gpu.objects.filter(pk=gpu.pk).update(override_until=now)
    probe(node)
    assert verdicts(node)[3] == "failed"
    assert AuditEntry.objects.filter(verb="override health", reason="bad sensor").exists()


def test_an_override_needs_a_verdict_a_date_and_a_reason(node, root):
    gpu, now = node.gpus.get(index=3), clock.now()
    soon = now + timedelta(hours=1)
    for verdict, until, reason in (
        ("fine", soon, "x"), ("ok", now, "x"), ("ok", now + timedelta(days=91), "x"),
        ("ok", soon, ""),
    ):  # fmt: skip
        with pytest.raises(InvalidOrder):
            health.override(person(root), gpu, verdict, until=until, reason=reason, at=now)
    assert verdicts(node)[3] == "ok" and not HealthChange.objects.exists()


def test_a_card_comes_back_by_hand_and_only_when_it_is_in_order(node, root):
    probe(node, gpu3={"remap_failed": True})
    gpu = node.gpus.get(index=3)
    with pytest.raises(WrongState, match="could not be remapped"):
        health.requalify(person(root), gpu, reason="looked", at=clock.now())

    probe(node)
    assert verdicts(node)[3] == "failed"  # by hand only
    health.requalify(person(root), gpu, reason="replaced", at=clock.now())
    probe(node)
    assert verdicts(node)[3] == "ok"
    assert HealthChange.objects.first().actor == root.username


def test_requalifying_ends_a_quarantine(node, root):
    card_row = Card.objects.get(gpu__node=node, gpu__index=3)
    Card.objects.filter(pk=card_row.pk).update(quarantined_at=clock.now(), quarantine_note="x")
    health.requalify(person(root), card_row.gpu, reason="cleaned by hand", at=clock.now())
    card_row.refresh_from_db()
    assert card_row.quarantined_at is None and card_row.quarantine_note == ""
