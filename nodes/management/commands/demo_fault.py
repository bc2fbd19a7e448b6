"""`manage.py demo_fault NODE GPU FAULT`: let a card of a demo node fail, to watch what follows.

The demo's cards are pretended: this changes what their driver says. `clear` makes the card well
again, as a repair would; what was noted of it stays until it is requalified.
"""

import json
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes import clock, hints
from nodes.models import Node

Card = dict[str, Any]
State = dict[str, Any]


def _xid(state: State, card: Card, value: str) -> None:
    slot = card["pci_bus_id"].rpartition(".")[0]
    line = f"NVRM: Xid (PCI:{slot[4:]}): {int(value)}, pid='<unknown>', name=<unknown>, pretended"
    state.setdefault("kernel_log", []).append(line)
    if int(value) == 79:
        card["errors"]["HandleByIndex"] = 15


def _gone(state: State, card: Card, value: str) -> None:
    card["errors"]["HandleByIndex"] = 15


def _clear(state: State, card: Card, value: str) -> None:
    slot = card["pci_bus_id"].rpartition(".")[0][4:]
    # Lines keep their numbers: a reader counts on them.
    lines = state.get("kernel_log", [])
    state["kernel_log"] = ["" if slot in line else line for line in lines]
    kept = ("uuid", "name", "memory_mib", "used_mib", "processes", "power_w", "utilization_pct",
            "pci_bus_id", "compute_capability", "mig")  # fmt: skip
    wholesome = {name: card[name] for name in kept if name in card}
    card.clear()
    card.update(wholesome, temperature_c=35, errors={})


def _number(name: str) -> Callable[[State, Card, str], None]:
    def set_number(state: State, card: Card, value: str) -> None:
        card[name] = int(value, 0)

    return set_number


FAULTS: dict[str, Callable[[State, Card, str], None]] = {
    "xid": _xid,
    "gone": _gone,
    "clear": _clear,
    "ecc": _number("ecc_uncorrected"),
    "temp": _number("temperature_c"),
    "recovery": _number("recovery_action"),
    "clocks": _number("clocks_reasons"),
    "width": _number("pcie_width"),
    "pending": lambda state, card, value: card.update(remapped=[0, 1, 1, 0]),
    "remap": lambda state, card, value: card.update(remapped=[0, 1, 0, 1]),
}
TOLD = "xid=79, ecc=3, temp=94, recovery=1, clocks=0x40, width=8, pending, remap, gone or clear"


class Command(BaseCommand):
    help = "Let a card of a demo node fail (or be well again), to watch what follows."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("node", help="a demo node, such as demo-a")
        parser.add_argument("gpu", type=int, help="the card's number on it, such as 3")
        parser.add_argument("fault", nargs="+", help=TOLD)

    def handle(self, *args: Any, **options: Any) -> None:
        node = Node.objects.filter(name=options["node"]).first()
        if node is None:
            names = ", ".join(Node.objects.values_list("name", flat=True)) or "none"
            raise CommandError(f"There is no node {options['node']}. Enrolled: {names}.")
        path = _state_file(node)
        state = json.loads(path.read_text())
        cards = dict(enumerate(state["gpus"]))
        card = cards.get(options["gpu"])
        if card is None:
            raise CommandError(f"{node.name} has cards 0 to {len(cards) - 1}.")
        for fault in options["fault"]:
            _put(state, card, fault)
        spare = path.with_suffix(".part")
        spare.write_text(json.dumps(state, indent=1))
        spare.replace(path)
        hints.probe_soon(node.pk)
        self.stdout.write(f"{node.name} GPU {options['gpu']}: {', '.join(options['fault'])}")
        self.stdout.write(f"It is probed now ({clock.now():%H:%M:%S} UTC); see /nodes/{node.name}/")


def _put(state: State, card: Card, fault: str) -> None:
    name, _, value = fault.partition("=")
    if name not in FAULTS:
        raise CommandError(f"There is no fault {name!r}. Choose {TOLD}.")
    try:
        FAULTS[name](state, card, value)
    except ValueError as odd:
        raise CommandError(f"{fault!r} wants a number, such as {TOLD.split(',')[0]}.") from odd


def _state_file(node: Node) -> Path:
    """What a demo node's driver reads: beside the home that its root lies in."""
    path = Path(node.root).parents[3] / "nvml.json" if node.root.count("/") > 4 else Path()
    if not node.nvml_module or not path.is_file():
        raise CommandError(
            f"{node.name} is no demo node of this machine: its cards are real, or not here."
        )
    return path
