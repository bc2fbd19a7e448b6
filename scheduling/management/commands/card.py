"""``manage.py card NODE GPU --requalify``: an operator's word on a card (docs/health-rules.md)."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes import clock
from nodes.models import Gpu, Node
from scheduling.actors import COMMAND
from scheduling.errors import SchedulingError
from scheduling.services import health


class Command(BaseCommand):
    help = "Give a card back to work, or let a verdict of yours stand for some days."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("node", help="the node's name")
        parser.add_argument("gpu", type=int, help="the card's number on it")
        parser.add_argument("--reason", required=True, help="what was found; it is noted")
        does = parser.add_mutually_exclusive_group(required=True)
        does.add_argument("--requalify", action="store_true", help="it is in order again")
        does.add_argument("--verdict", choices=Node.Health.values, help="it counts as this")
        parser.add_argument("--days", type=int, default=7, help="for so long (7)")

    def handle(self, *args: Any, **options: Any) -> None:
        gpu = self._card(options["node"], options["gpu"])
        now, reason = clock.now(), options["reason"]
        try:
            if options["requalify"]:
                health.requalify(COMMAND, gpu, reason=reason, at=now)
            else:
                until = now + timedelta(days=options["days"])
                health.override(
                    COMMAND, gpu, options["verdict"], until=until, reason=reason, at=now
                )
        except SchedulingError as why:
            raise CommandError(f"{why.cause} {why.next_step}") from why
        gpu.refresh_from_db()
        self.stdout.write(f"{gpu.node.name} GPU {gpu.index} ({gpu.uuid}) is {gpu.health}.")
        serial = gpu.facts.get("serial")
        if serial:
            self.stdout.write(f"Serial number, should it have to be replaced: {serial}.")

    def _card(self, name: str, index: int) -> Gpu:
        cards = Gpu.objects.filter(node__name=name, parent__isnull=True).order_by("-present")
        found = cards.filter(index=index).select_related("node").first()
        if found is None:
            known = sorted(set(cards.values_list("index", flat=True))) or "none"
            raise CommandError(f"There is no card {index} on {name!r}. Cards there: {known}.")
        return found
