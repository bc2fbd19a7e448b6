"""``manage.py clear_alarm NODE --reason TEXT``: let traffic to a node go on (docs/nodes.md)."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes import clock
from nodes.models import Node
from scheduling.actors import COMMAND
from scheduling.services.nodes import clear_alarm


class Command(BaseCommand):
    help = "Clear a node's alarm after it was looked into; traffic to it goes on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("node", help="the node's name")
        parser.add_argument("--reason", required=True, help="what was found; it is noted")

    def handle(self, *args: Any, **options: Any) -> None:
        node = Node.objects.filter(name=options["node"]).first()
        if node is None:
            known = ", ".join(Node.objects.values_list("name", flat=True)) or "none"
            raise CommandError(f"There is no node {options['node']!r}. Known: {known}.")
        if not node.alarm:
            self.stdout.write(f"{node.name} has no alarm. Nothing was changed.")
            return
        clear_alarm(COMMAND, node, at=clock.now(), reason=options["reason"])
        self.stdout.write(f"Cleared on {node.name}: {node.alarm}")
