"""A card fails under a job: it saves, leaves and goes on elsewhere, and the page says why."""

import pytest
from django.core.management import CommandError, call_command

from nodes import tasks
from nodes.models import Node
from scheduling import reconcile
from scheduling.models import Attempt, Lease
from tests import builders
from tests.nodes.machines import until

pytestmark = pytest.mark.needs("sshd")

SAVES = """#!/bin/sh
trap 'echo saved >> "$EVIDENCE"; exit 0' TERM
echo "started on $CUDA_VISIBLE_DEVICES" >> "$EVIDENCE"
[ "$GANGWAY_ATTEMPT" = 1 ] || exit 0
while :; do sleep 0.1; done
"""


def test_a_job_on_a_card_that_fails_saves_and_goes_on_elsewhere(
    alice, nodes, drive, evidence, client_of, request
):
    job = builders.job(alice, gpus=1, command=SAVES, env={"EVIDENCE": str(evidence)})
    drive(job, "RUNNING")
    until(evidence.exists, what="it has started")
    gpu = Lease.objects.get(freed_at=None).card.gpu
    before = {node.pk: node.gpus.filter(health="ok").count() for node in Node.objects.all()}

    call_command("demo_fault", gpu.node.name, gpu.index, "xid=79")
    request.addfinalizer(lambda: call_command("demo_fault", gpu.node.name, gpu.index, "clear"))
    tasks.probe(gpu.node_id)
    reconcile.reconcile()
    drive(job)

    assert job.state == "COMPLETED"
    first, second = Attempt.objects.filter(job=job).order_by("number")
    assert first.outcome == "card_failed"
    assert f"GPU {gpu.index} of {gpu.node.name} failed" in first.stop_note
    assert second.parts.get().leases.get().card.gpu != gpu
    lines = evidence.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["started", "saved", "started"]
    assert gpu.node.gpus.filter(health="ok").count() == before[gpu.node_id] - 1
    assert f"GPU {gpu.index} of {gpu.node.name} failed" in (
        client_of(alice).get(f"/jobs/{job.pk}/").content.decode()
    )


def test_a_fault_is_refused_with_what_would_be_valid(nodes):
    Node.objects.filter(name="b").update(nvml_module="")
    for words, why in (
        (("b", 0, "xid=79"), "no demo node"),
        (("zz", 0, "clear"), "There is no node zz"),
        (("a", 9, "clear"), "cards 0 to 7"),
        (("a", 0, "melt"), "Choose xid=79"),
        (("a", 0, "ecc=many"), "wants a number"),
    ):
        with pytest.raises(CommandError, match=why):
            call_command("demo_fault", *words)
