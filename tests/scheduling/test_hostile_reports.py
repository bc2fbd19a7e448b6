"""A node may lie, and a job may spoil its record: what that touches stays its own."""

from datetime import timedelta

import pytest

from nodes import clock
from nodes.errors import NodeRefused
from nodes.models import RunReport
from scheduling import finishing, looks, part_facts, reports
from scheduling.models import Lease, LogPiece, Part
from tests import builders
from tests.scheduling.test_lifecycle import look_at_all, node_side, running, state

__all__ = ["node_side"]


@pytest.mark.parametrize(
    "more",
    [
        {"end": "a\0b"},
        {"note": "\ud800"},
        {"ran_s": float("nan")},
        {"ran_s": 10**400},
        {"log": {"x": 5, "-1": 5, "0": -5, "1": "much"}},
        {"cards": 7, "head": 7, "exit": "no", "boot_id": ["x"]},
        {"deep": [[[[[[[[[[]]]]]]]]]]},
    ],
)
def test_what_a_node_says_of_one_run_never_keeps_another_from_its_end(alice, node_side, more):
    node = builders.node("a")
    _, mad = running(alice)
    good, attempt = running(alice)
    report = {"run": mad.run_id, "seq": 5, "state": "ended", "exit": 0, **more}
    reports.hear(node.pk, [report], at=clock.now())
    node_side.end(attempt.run_id)

    look_at_all()

    assert state(good) == "COMPLETED"


def test_a_report_that_cannot_be_applied_holds_up_no_other_and_is_tried_again(
    alice, node_side, monkeypatch
):
    builders.node("a")
    first, mad = running(alice)
    good, attempt = running(alice)
    node_side.end(mad.run_id)
    node_side.end(attempt.run_id)
    really = part_facts.apply

    def apply(job, *words, **more):
        if job.pk == first.pk:
            raise ValueError("a fault of ours")
        really(job, *words, **more)

    monkeypatch.setattr(part_facts, "apply", apply)
    look_at_all()
    assert (state(first), state(good)) == ("RUNNING", "COMPLETED")
    assert RunReport.objects.filter(taken_at=None, run_id=mad.run_id).exists()

    monkeypatch.setattr(part_facts, "apply", really)
    reports.take()
    assert state(first) == "COMPLETED"


def test_a_lost_log_keeps_no_card(alice, node_side, monkeypatch):
    node = builders.node("a")
    _, attempt = running(alice)

    def lost(node, args):
        raise NodeRefused("No order.", next_step="?", code="unknown_run", kind="request")

    monkeypatch.setattr(node_side, "do_tail", lost)
    node_side.dirty = {lease.card.gpu.uuid for lease in Lease.objects.all()}
    node_side.end(attempt.run_id, log={"0": 99_999})
    look_at_all()
    finishing.finish(attempt.pk)
    node_side.dirty = set()

    for _ in range(3):
        looks.look(node.pk)

    assert not Lease.objects.filter(freed_at=None).exists()
    assert Part.objects.get().settled_at is not None
    assert bytes(LogPiece.objects.get().data) == b""


def test_a_part_that_is_gone_gives_its_card_back_while_the_gang_waits_for_another(alice, node_side):
    nodes = [builders.node("a"), builders.node("b")]
    _, attempt = running(alice, gpus=16, nodes=2)
    node_side.dirty = set(Lease.objects.values_list("card__gpu__uuid", flat=True))
    node_side.end(attempt.run_id, node="a")
    node_side.silent.add("b")
    look_at_all()
    assert Lease.objects.filter(freed_at=None).count() == 16
    node_side.dirty = set()

    looks.look(nodes[0].pk)

    assert Lease.objects.filter(freed_at=None, part__node=nodes[0]).count() == 0
    assert Lease.objects.filter(freed_at=None, part__node=nodes[1]).count() == 8


@pytest.mark.parametrize(
    ("said", "words"), [({}, "cannot tell"), ({"used_mib": 900}, "left 900 MiB in use")]
)
def test_a_card_is_withheld_with_no_more_blame_than_its_node_can_prove(
    alice, node_side, monkeypatch, said, words
):
    builders.node("a", cards=1)
    _, attempt = running(alice)
    card = {"GPU-a-0": {"clean": False, **said}}
    monkeypatch.setattr(node_side, "cards", lambda node, run: card)
    node_side.end(attempt.run_id)
    look_at_all()
    Lease.objects.update(releasing_at=clock.now() - timedelta(minutes=2))

    look_at_all()

    assert words in Lease.objects.get().card.quarantine_note
