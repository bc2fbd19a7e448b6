"""``manage.py freeze --reason TEXT`` and ``freeze --lift``: the brake (docs/operations.md)."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes import clock
from scheduling import freezing
from scheduling.actors import COMMAND
from scheduling.errors import SchedulingError


class Command(BaseCommand):
    help = "Stop placements, evictions, starts and signals at once, or let them go on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--lift", action="store_true", help="let everything go on")
        parser.add_argument("--reason", default="", help="why; every page shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        at, reason = clock.now(), options["reason"]
        try:
            if options["lift"]:
                was = freezing.lift(COMMAND, at=at, reason=reason)
                self.stdout.write(f"Lifted. It was frozen since {was.frozen_at:%d %b %H:%M} UTC.")
            else:
                freezing.freeze(COMMAND, reason=reason, at=at)
                self.stdout.write(
                    "Frozen: nothing is placed, evicted, started or signalled. What runs runs on.\n"
                    "Let it go on: manage.py freeze --lift"
                )
        except SchedulingError as refused:
            raise CommandError(f"{refused.cause} {refused.next_step}") from refused
