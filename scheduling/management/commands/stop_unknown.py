"""``manage.py stop_unknown NODE RUN --reason TEXT``: end a run that no job of this portal knows."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes import clock
from nodes.errors import NodeError
from nodes.models import Node
from scheduling import reports, strays
from scheduling.actors import COMMAND
from scheduling.models import Attempt


class Command(BaseCommand):
    help = "Ask a run that no job of this portal knows to leave its node, then end it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("node", help="the node's name")
        parser.add_argument("run", help="as manage.py check_ledger or the card's note names it")
        parser.add_argument("--reason", required=True, help="why; it is noted")
        parser.add_argument("--grace", type=int, default=60, metavar="S", help="seconds to save")

    def handle(self, *args: Any, **options: Any) -> None:
        node = Node.objects.filter(name=options["node"]).first()
        if node is None:
            known = ", ".join(Node.objects.values_list("name", flat=True)) or "none"
            raise CommandError(f"There is no node {options['node']!r}. Known: {known}.")
        run = options["run"]
        named = reports.run_of(run)
        attempt = named and Attempt.objects.filter(job=named[0], number=named[1]).first()
        if attempt and attempt.run_id == run:
            raise CommandError(f"Run {run} is of job {attempt.job_id}. Cancel the job instead.")
        try:
            grace_s, reason = options["grace"], options["reason"]
            strays.stop(COMMAND, node, run, grace_s=grace_s, reason=reason, at=clock.now())
        except NodeError as refused:
            raise CommandError(f"{refused.cause} {refused.next_step}") from refused
        self.stdout.write(
            f"{run} is asked to leave {node.name} and has {grace_s} s. Its cards are given back "
            "once the node says that it is gone."
        )
