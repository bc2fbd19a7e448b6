"""``manage.py demo_node``: pretend to be a machine with GPUs, over real SSH, until stopped.

Beyond loopback it refuses to start: whoever has a key runs anything as this user. Its jobs end
with it; after a kill -9 they go on, and the next start on the same folder finds them.
"""

import json
import logging
import os
import signal
import threading
from argparse import ArgumentParser
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes.demo import nvml
from nodes.demo.processes import Processes, adopt_orphans, end_with
from nodes.demo.server import DemoNode

REAP_PERIOD_S = 0.2


class Command(BaseCommand):
    help = "Serve SSH as a machine with GPUs that exist only in DIR/nvml.json."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", required=True, help="the node's name, part of its card UUIDs")
        parser.add_argument("--root", required=True, help="its folder: keys, cards, home, runs")
        parser.add_argument("--port", type=int, required=True)
        parser.add_argument("--bind", default="127.0.0.1", help="a loopback address")
        parser.add_argument("--cards", type=int, default=8)
        parser.add_argument("--model", default="NVIDIA H100 80GB HBM3")
        parser.add_argument("--memory-mib", type=int, default=81559)
        parser.add_argument("--cpus", type=int, default=64, help="how many it pretends to have")
        parser.add_argument("--node-memory-mib", type=int, default=524288)
        parser.add_argument("--disk-gib", type=int, default=900)
        parser.add_argument("--delay-ms", type=int, default=0, help="wait before each command")

    def handle(self, *args: Any, **options: Any) -> None:
        parent = os.getppid()
        if not ip_address(options["bind"]).is_loopback:
            raise CommandError(f"{options['bind']} is not a loopback address; use 127.0.0.1.")
        folder = Path(options["root"]).resolve()
        environment = _prepared(folder, options)
        adopt_orphans()
        processes = Processes(folder, environment, alone=True)
        try:
            node = DemoNode(
                folder,
                options["bind"],
                options["port"],
                processes=processes,
                delay_ms=options["delay_ms"],
            )
        except OSError as taken:
            raise CommandError(
                f"Port {options['port']} of {options['bind']} cannot be used: {taken.strerror}."
                " Choose another with --port."
            ) from taken
        _serve_until_told(node, processes, parent)


def _prepared(folder: Path, options: dict[str, Any]) -> dict[str, str]:
    """Make what is missing in the folder; answer the environment of the node's commands."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    cards = folder / "nvml.json"
    if not cards.exists():
        state = nvml.default_state(
            options["model"], options["memory_mib"], options["cards"], options["name"]
        )
        cards.write_text(json.dumps(state, indent=1))
    machine = {
        "hostname": options["name"],
        "cpus": options["cpus"],
        "memory_mib": options["node_memory_mib"],
        "disk_total_gib": options["disk_gib"],
        "disk_free_gib": options["disk_gib"] * 8 // 9,
    }
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "USER": os.environ.get("USER", "gangway"),
        "GANGWAY_FAKE_FOLDER": str(folder),
        "GANGWAY_FAKE_NVML": str(cards),
        "GANGWAY_FAKE_NODE": json.dumps(machine),
    }


def _serve_until_told(node: DemoNode, processes: Processes, parent: int) -> None:
    # Its tracebacks are of clients that left; the server says so in a line of its own.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    end_with(parent)
    threading.Thread(target=node.serve, daemon=True).start()
    while not told.wait(REAP_PERIOD_S):
        processes.reap_orphans()
    node.stop()
