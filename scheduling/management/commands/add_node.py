"""``manage.py add_node HOST``: enrol a machine and put it to work. Told in docs/nodes.md.

Asks, shows and refuses; the steps themselves are in ``nodes.enroll``. Safe to repeat: the same
name again checks the machine anew, updates its row and keeps its key.
"""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from nodes import enroll, keys
from nodes.errors import KeyRejected, NodeError
from nodes.models import Node
from scheduling.actors import COMMAND
from scheduling.services.nodes import put_to_work


class Command(BaseCommand):
    help = "Enrol a machine: pin its host key, check it, take its inventory, put it to work."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="name or IP address that sshd answers on")
        parser.add_argument("--port", type=int, default=22)
        parser.add_argument("--account", default="gangway", help="the account that runs jobs there")
        parser.add_argument("--name", help="the node's name here (default: HOST)")
        parser.add_argument("--root", default="", help="its folder (default: ~/.gangway-node/...)")
        parser.add_argument("--pool", default="default")
        parser.add_argument("--rack", default="")
        parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE")
        parser.add_argument("--from", dest="source", metavar="ADDRESSES", help="the key's from=")
        parser.add_argument("--fingerprint", help="the host key's, SHA256:...; others are refused")
        parser.add_argument("--yes", action="store_true", help="trust the host key shown, once")
        parser.add_argument("--key-only", action="store_true", help="print the key line and stop")
        parser.add_argument("--authorized-keys", metavar="FILE", help="append the key line to FILE")
        parser.add_argument("--take-over", action="store_true", help="take it from another portal")
        parser.add_argument("--nvml-module", default="", help="a pynvml look-alike, on the node")
        parser.add_argument("--nvml-lib", default="", help="an NVML library, on the node")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._enrol(options)
        except NodeError as failed:
            raise CommandError(f"{failed.cause} {failed.next_step}") from failed

    def _enrol(self, options: dict[str, Any]) -> None:
        node = enroll.prepared(_wish(options))
        line = keys.authorized_line(
            node.public_key, name=node.name, source=options["source"] or enroll.source_address(node)
        )
        if options["authorized_keys"]:
            _append(Path(options["authorized_keys"]), line)
        else:
            self.stdout.write(f"The key line of {node.name}, for authorized_keys there:\n{line}")
        if options["key_only"]:
            return
        enroll.pin(node, trusts=lambda shown, was: self._trusts(options, shown, was))
        found = self._examined(node, options)
        with transaction.atomic():
            node = enroll.written(found)
            place = put_to_work(COMMAND, node, pool=options["pool"])
        for remark in found.remarks:
            self.stdout.write(f"Note: {remark}")
        cards = node.gpus.filter(present=True)
        models = ", ".join(sorted({gpu.model for gpu in cards}))
        self.stdout.write(
            f"{node.name} works in pool {place.pool.name}: {len(cards)} cards ({models}),"
            f" {node.cpus} CPUs, {node.memory_mib} MiB, folder {node.root}."
        )

    def _examined(self, node: Node, options: dict[str, Any]) -> enroll.Examined:
        while True:
            try:
                return enroll.examined(node, take_over=options["take_over"])
            except KeyRejected as rejected:
                if not os.isatty(0):
                    raise
                self.stdout.write(f"{rejected.cause} {rejected.next_step}")
                input("Press Enter to try again, Ctrl-C to leave. ")

    def _trusts(self, options: dict[str, Any], shown: str, was: str) -> bool:
        if options["fingerprint"]:
            return bool(options["fingerprint"] == shown)
        self.stdout.write(f"The machine shows the host key {shown}.")
        if was:
            self.stdout.write(f"It is NOT the key pinned before, {was}.")
        if options["yes"]:
            # A changed key is never waved through: --fingerprint says that somebody compared it.
            return not was
        if not os.isatty(0):
            return False
        return input("Is that the machine's key? Type yes: ").strip() == "yes"


def _wish(options: dict[str, Any]) -> enroll.Wish:
    labels = dict(pair.partition("=")[::2] for pair in options["label"])
    if "" in labels or len(labels) != len(options["label"]):
        raise CommandError("A --label is KEY=VALUE, each key once; for example --label fabric=ib.")
    return enroll.Wish(
        name=options["name"] or options["host"].lower(),
        address=options["host"],
        port=options["port"],
        account=options["account"],
        root=options["root"],
        nvml_module=options["nvml_module"],
        nvml_library=options["nvml_lib"],
        rack=options["rack"],
        labels=labels,
        take_over=options["take_over"],
    )


def _append(file: Path, line: str) -> None:
    """Add a line to an authorized_keys file unless it stands there."""
    known = file.read_text().splitlines() if file.exists() else []
    if line not in known:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        file.write_text("\n".join([*known, line]) + "\n")
