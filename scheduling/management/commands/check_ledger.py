"""``manage.py check_ledger``: do leases, counters, states, logs and nodes say the same?"""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduling import ledger_check
from scheduling.accounts_check import Difference

SETTLES_S = 3.0


class Command(BaseCommand):
    help = "Compare everything that says who holds what; exit 1 and name each difference."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rows-only", action="store_true", help="do not ask the nodes")

    def handle(self, *args: Any, **options: Any) -> None:
        found = ledger_check.of_rows()
        if not options["rows_only"]:
            found += self.of_nodes()
        for difference in found:
            self.stderr.write(str(difference))
        compared = ", ".join(f"{n} {what}" for what, n in ledger_check.summary().items())
        if found:
            raise CommandError(f"{len(found)} differences in {compared}.", returncode=1)
        self.stdout.write(f"No difference in {compared}.")

    def of_nodes(self) -> list[Difference]:
        """Those that are there twice: a run that has just started or ended is no difference."""
        first = set(ledger_check.of_nodes())
        if not first:
            return []
        time.sleep(SETTLES_S)
        return [found for found in ledger_check.of_nodes() if found in first]
