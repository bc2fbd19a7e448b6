"""NVIDIA's own Python module against a pretended driver: rules judge what it really says."""

import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.health import judge, looks
from nodes.health.rules import OK, RULES
from nodes.management.commands.demo_fault import FAULTS, _put
from nodes.readings import read
from tests.nodes.driver import driver
from tests.nodes.machines import until

from .conftest import LocalNode, Serve

pytestmark = pytest.mark.needs("cc")

Line = dict[str, Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver.compiled(tmp_path_factory.mktemp("driver"))


class Real:
    """A node whose probe uses nvidia-ml-py; both pretended drivers show the same state."""

    def __init__(self, node: LocalNode, library: Path) -> None:
        self.node = node
        self.flat = node.state_file.with_suffix(".flat")
        node.environment["GANGWAY_FAKE_NVML_FLAT"] = str(self.flat)
        self.set(node.state)
        options = (f"--nvml-module={node.bin / 'pynvml.py'}", f"--nvml-lib={library}")
        self.serve: Serve = node.serve(*options)

    def set(self, state: Line) -> None:
        self.node.set_cards(state)
        beside = self.flat.with_suffix(".part")
        beside.write_text(driver.flat(state))
        beside.replace(self.flat)

    def fault(self, *faults: str, card: int = 3) -> None:
        state = copy.deepcopy(self.node.state)
        for fault in faults:
            _put(state, state["gpus"][card], fault)
        self.set(state)


@pytest.fixture
def real(node: LocalNode, library: Path) -> Iterator[Real]:
    yield Real(node, library)


def told(line: Line) -> Line:
    """What a probe says of the cards; the kernel's log is not the driver's."""
    return {key: line[key] for key in ("driver", "nvml_error", "gpus")}


def test_both_pretended_drivers_say_the_same_of_every_fault(
    real: Real, serve: Serve, node: LocalNode
):
    pid = {"pid": os.getpid(), "used_mib": 900}
    changes: list[Line] = [
        {},
        {"used_mib": 901, "processes": [pid, {"pid": 1, "used_mib": 1}], "utilization_pct": 97},
        {"mig": True, "serial": "1652922001234", "power_w": 412.5},
        {"name": "NVIDIA GeForce RTX 4090", "compute_capability": [8, 9], "memory_mib": 24564},
        {"errors": {"TotalEccErrors": 3, "RemappedRows": 3, "Serial": 3, "FieldValues": 3}},
        {"errors": {"Temperature": 15, "PowerUsage": 999, "UtilizationRates": 16}},
        {"errors": {"HandleByIndex": 15}},
        {"errors": {"MemoryInfo": 999, "ComputeRunningProcesses": 4}},
    ]
    values = {"ecc": "3", "temp": "94", "recovery": "1", "clocks": "0x40", "width": "8"}
    faults = [f"{name}={values[name]}" if name in values else name for name in FAULTS]

    for change in changes:
        state = copy.deepcopy(node.state)
        state["gpus"][3].update(change)
        real.set(state)
        assert told(real.serve.ok("probe")) == told(serve.ok("probe")), change
    for fault in faults:
        real.fault(fault if fault != "xid" else "xid=79")
        assert told(real.serve.ok("probe")) == told(serve.ok("probe")), fault


def test_no_function_that_the_probe_asks_for_is_missing(real: Real):
    """A missing one reads as null, as with an old driver: only a full line proves them all."""
    for card in real.serve.ok("probe")["gpus"]:
        assert card["errors"] == {}
        assert [name for name, value in card.items() if value is None] == ["mig"]


FIRING = [
    ("recovery=1", "recovery-action", "recovery=0"),
    ("recovery=5", "recovery-drain", "recovery=0"),
    ("gone", "card-gone", "clear"),
    ("remap", "remap-failed", "pending"),
    ("pending", "remap-pending", "clear"),
    ("ecc=3", "ecc-uncorrected", "ecc=0"),
    ("temp=92", "near-shutdown", "temp=91"),
    ("clocks=0x40", "hw-slowdown", "clocks=0x4"),
    ("clocks=0x20", "sw-thermal", "clocks=0x4"),
    ("width=8", "pcie-width", "width=16"),
]


@pytest.mark.parametrize(("fault", "rule", "near_miss"), FIRING)
def test_what_the_module_says_of_a_fault_fires_its_rule_and_a_near_miss_does_not(
    real: Real, fault: str, rule: str, near_miss: str
):
    well = real.serve.ok("probe")
    real.fault(near_miss)
    assert rule not in fired(well, real.serve.ok("probe"), real.node.uuids[3])

    real.fault(fault)
    sick = real.serve.ok("probe")

    assert rule in fired(well, sick, real.node.uuids[3])
    assert fired(well, sick, real.node.uuids[4]) == set(), "its neighbour is well"


def fired(before: Line, now: Line, uuid: str) -> set[str]:
    """The rules that one look at a card would make hold, were one look enough."""
    was, seen = ({card.uuid: card.facts for card in read(one).cards} for one in (before, now))
    facts = seen.get(uuid, {})
    look = looks.Look(facts, looks.deltas(facts, was[uuid], True), gone=uuid not in seen)
    memory, verdict = judge.judge(look, {}, {}, [replace(rule, needs=1) for rule in RULES])
    assert (verdict.verdict == OK) == (not memory)
    return set(memory)


def test_a_counter_that_rises_is_seen_by_the_same_process(real: Real):
    assert real.serve.ok("probe")["gpus"][3]["ecc_uncorrected"] == 0
    real.fault("ecc=3")
    assert real.serve.ok("probe")["gpus"][3]["ecc_uncorrected"] == 3
    real.fault("ecc=7")
    assert real.serve.ok("probe")["gpus"][3]["ecc_uncorrected"] == 7


def test_a_driver_that_goes_and_comes_back_is_followed(real: Real, node: LocalNode):
    real.serve.ok("probe")
    state = node.state
    real.set({**state, "error": 18})
    real.serve.ok("probe")
    assert real.serve.ok("probe")["nvml_error"]["code"] == "version_mismatch"

    real.set(state)

    assert len(real.serve.ok("probe")["gpus"]) == 8


def test_a_driver_that_hangs_is_said_and_its_process_is_not_left(real: Real, node: LocalNode):
    real.serve.ok("probe")
    state = node.state
    real.set({**state, "hang_s": 60})

    assert real.serve.ok("probe")["nvml_error"]["code"] == "probe_hung"

    real.set(state)
    assert real.serve.ok("probe")["nvml_error"] is None
    # Each probe takes leave of those that were killed and have ended since.
    until(
        lambda: real.serve.ok("probe") and len(probes_of(real.serve.process.pid)) == 1,
        what="the one that hung is gone altogether",
    )


def probes_of(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in children if "gangway-probe" in _name(child)]


def _name(pid: str) -> str:
    comm = Path(f"/proc/{pid}/comm")
    return comm.read_text() if comm.exists() else ""
