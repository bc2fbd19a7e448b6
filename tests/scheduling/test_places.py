"""From an order's parallelism and topology to the cards it gets, through rows and commands."""

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from nodes import clock
from nodes.models import Gpu, Node
from scheduling import cycle, run_orders, snapshot
from scheduling.errors import InvalidOrder, NeverFits
from scheduling.models import Attempt, AuditEntry, Card, Job, Part
from scheduling.orders import parse
from scheduling.reasons import sentences
from tests import builders

LEAST = {"team": "vision", "command": "true", "gpus": 8}


def refused(**fields) -> dict[str, str]:
    with pytest.raises(InvalidOrder) as refusal:
        parse(LEAST | fields)
    return refusal.value.fields


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"required": "row"}, "'row' is not a level. Valid: island, node, rack, block."),
        ({"wanted": "rack"}, "topology has required or preferred, not 'wanted'."),
        ({"required": "rack", "preferred": "node"}, "topology is"),
        ({"required": None}, "not a level"),
        ("rack", "topology is"),
        (["rack"], "topology is"),
        ({"required": ["rack"]}, "not a level"),
    ],
    ids=str,
)
def test_a_topology_that_is_none_is_refused_with_the_valid_ones(value, said):
    assert said in refused(topology=value)["topology"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"tp": 3}, "tp 3 × pp 1 × dp 2 is 6; the job has 8 GPUs."),
        ({"tp": 8, "dp": 2}, "is 16; the job has 8 GPUs"),
        ({"sp": 2}, "parallelism has tp, pp, dp, not 'sp'."),
        ({"tp": 0}, "outside 1 to 100000"),
        ({"tp": "many"}, "A whole number"),
        (8, "parallelism is an object"),
    ],
    ids=str,
)
def test_a_parallelism_that_does_not_multiply_to_the_gpus_is_refused(value, said):
    assert said in refused(parallelism=value)["parallelism"]


@pytest.mark.parametrize("value", ["8,0", "x", "100.0", "8.55", -1, True, {}, "٨.0"], ids=str)
def test_a_capability_that_is_none_is_refused(value):
    assert "is not a compute capability" in refused(gpu_capability=value)["gpu_capability"]


def test_a_memory_limit_below_the_request_is_refused():
    said = refused(gpu_memory_gib=40, gpu_memory_limit_gib=39)
    assert said["gpu_memory_limit_gib"] == "The limit of 39 GiB is below the 40 GiB that are asked."


def test_what_is_left_out_of_parallelism_is_filled_in():
    assert parse(LEAST | {"parallelism": {"tp": 2}}).parallelism == {"tp": 2, "pp": 1, "dp": 4}
    assert parse(LEAST | {"gpu_capability": 8.0}).gpu_capability == 80
    assert parse(LEAST | {"topology": "unconstrained"}).topology_level == ""


def test_a_job_that_names_no_nodes_gets_as_few_as_will_do(alice):
    builders.node("a")
    builders.node("b")

    assert builders.job(alice, gpus=8, nodes=None).nodes == 1
    assert builders.job(alice, gpus=16, nodes=None).nodes == 2


def test_a_group_that_no_node_holds_is_refused_at_its_field(alice):
    builders.node("a")
    builders.node("b")

    with pytest.raises(NeverFits) as refusal:
        builders.job(alice, gpus=16, nodes=None, parallelism={"tp": 16, "pp": 1, "dp": 1})

    assert refusal.value.fields["parallelism"].endswith("Ask for a tp of 8 or less.")


def test_a_job_asks_for_a_capability_and_gets_a_card_that_has_it(alice):
    builders.node("old")
    builders.node("new")
    Gpu.objects.filter(node__name="old").update(compute_capability="8.0")
    Gpu.objects.filter(node__name="new").update(compute_capability="9.0")
    job = builders.job(alice, gpus=1, gpu_capability=90)

    cycle.serve()

    assert Part.objects.get(attempt__job=job).node.name == "new"


def test_what_a_job_may_use_of_a_card_is_its_memory_less_the_reserve(alice, settings):
    settings.GANGWAY_GPU_RESERVE_MIB = 1000
    builders.node("a")
    assert {card.memory_mib for card in Card.objects.all()} == {81559 - 1000}

    builders.job(alice, gpu_memory_mib=80559)
    with pytest.raises(NeverFits):
        builders.job(alice, gpu_memory_mib=80560)

    cycle.serve()
    assert Job.objects.get().state == "PLACED"


def test_a_preferred_rack_is_waited_for_and_then_the_attempt_says_it_was_missed(alice):
    for name in "ab":
        builders.node(name, rack=name, block="x", cards=8)
        builders.node(f"{name}2", rack=name, block="x")
    Gpu.objects.filter(node__name__endswith="2").update(foreign_use="somebody")
    job = builders.job(alice, gpus=16, nodes=2, topology_level="rack")

    cycle.serve()
    job.refresh_from_db()
    assert job.state == "PENDING"
    assert "Needs 16 H100 in one rack; at most 8 are free in one." in sentences(job)[0]

    Job.objects.update(submitted_at=clock.now() - timedelta(seconds=121))
    cycle.serve(always=True)
    assert Attempt.objects.get(job=job).topology_degraded == "block"


def test_an_operator_says_where_a_node_stands_and_which_cards_are_one_island(db, shop):
    builders.node("a")

    call_command("place_node", "a", "--rack", "r1", "--islands", "0+2,1+3", stdout=io.StringIO())

    (node,) = snapshot.inventory(clock.now()).nodes
    assert (node.rack, node.block) == ("r1", "")
    assert [gpu.island for gpu in node.gpus] == [0, 1, 0, 1, 2, 2, 2, 2]
    assert AuditEntry.objects.filter(verb="place").count() == 1


@pytest.mark.parametrize("islands", ["0-9", "0,0", "x", "-1", "1-", "0-99999999"])
def test_islands_of_cards_that_are_not_there_are_refused(db, shop, islands):
    builders.node("a")
    with pytest.raises(CommandError):
        call_command("place_node", "a", "--rack", "r1", f"--islands={islands}")
    with pytest.raises(CommandError, match="Known: a"):
        call_command("place_node", "b")
    assert Node.objects.get().rack == ""


def test_ranks_on_a_node_run_island_by_island_and_the_program_knows_its_axes(alice):
    node = builders.node("a", cards=4)
    Gpu.objects.filter(node=node, index__in=(1, 3)).update(island=1)
    axes = {"tp": 2, "pp": 1, "dp": 2}
    job = builders.job(alice, gpus=4, parallelism=axes, gpu_memory_limit_mib=1024)
    cycle.serve()
    part = Part.objects.get(attempt__job=job)

    order = run_orders.build(part, [part], job)

    assert order["cards"] == [f"GPU-a-{index}" for index in (0, 2, 1, 3)]
    assert order["env"] == {
        "GANGWAY_TP": "2", "GANGWAY_PP": "1", "GANGWAY_DP": "2",
        "GANGWAY_GPU_MEMORY_LIMIT_MIB": "1024",
    }  # fmt: skip
