"""A driver that does not answer for once is no reason to forget a node's cards."""

import pytest

from nodes import clock
from nodes.inventory import take_in
from nodes.models import Gpu, Wake
from scheduling import cycle
from scheduling.models import Job
from scheduling.reasons import sentences
from tests import builders

SILENT = {"code": "probe_hung", "cause": "NVML did not answer within 5 s.", "next_step": "Look."}


def probe(node, *, error=None):
    cards = [
        {"uuid": gpu.uuid, "index": gpu.index, "model": gpu.product, "memory_mib": gpu.memory_mib,
         "used_mib": 0, "processes": [], "errors": {}}
        for gpu in node.gpus.all()
    ]  # fmt: skip
    sizes = {"cpus": node.cpus, "memory_mib": node.memory_mib, "disk_total_gib": node.disk_gib}
    machine = {"boot_id": node.boot_id, **sizes}
    answer = {"v": 1, "nvml_error": error, "gpus": [] if error else cards, "node": machine}
    return take_in(node, answer, at=clock.now())


def test_a_silent_driver_hides_no_card_and_closes_the_node_until_it_answers(alice):
    node = builders.node("a")
    assert probe(node, error=SILENT)
    assert Gpu.objects.filter(present=True).count() == 8

    job = builders.job(alice, gpus=2)  # taken, not refused as if there were no cards
    cycle.serve()
    job.refresh_from_db()
    assert job.state == "PENDING"
    assert "its driver does not answer" in sentences(job)[0]

    Wake.objects.all().delete()
    assert probe(node) and Wake.objects.exists()
    cycle.serve()
    job.refresh_from_db()
    assert job.state == "PLACED"


def test_nothing_is_placed_on_a_node_whose_driver_fell_silent_after_the_snapshot(
    alice, monkeypatch
):
    node = builders.node("a")
    job = builders.job(alice, gpus=2)
    really = cycle.plan

    def plan(world):
        decided = really(world)
        probe(node, error=SILENT)
        return decided

    monkeypatch.setattr(cycle, "plan", plan)
    cycle.serve()
    assert Job.objects.get(pk=job.pk).state == "PENDING"


@pytest.mark.parametrize("path", ["/", "/nodes/", "/nodes/a/", "/jobs/new/"])
def test_the_pages_go_on_showing_its_cards(path, alice, client_of):
    node = builders.node("a")
    probe(node, error=SILENT)
    text = client_of(alice).get(path).content.decode()
    assert "No node is enrolled yet" not in text and "no cards" not in text.lower()
