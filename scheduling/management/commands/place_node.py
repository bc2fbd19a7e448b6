"""``manage.py place_node NAME --rack R --block B --islands 0-3,4-7``: where a node stands."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nodes.models import Node
from scheduling.actors import COMMAND
from scheduling.services.nodes import set_place


class Command(BaseCommand):
    help = "Say in which rack and block a node stands, and which of its cards lie on one island."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--rack", help="empty: in no known rack")
        parser.add_argument("--block", help="empty: in no known block")
        parser.add_argument(
            "--islands", default="", help="card indexes, such as 0-3,4-7 or 0+2,1+3"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        node = Node.objects.filter(name=options["name"]).first()
        if node is None:
            known = ", ".join(Node.objects.values_list("name", flat=True)) or "none yet"
            raise CommandError(f"There is no node {options['name']!r}. Known: {known}.")
        islands = [_indexes(text) for text in options["islands"].split(",") if text]
        flat = [index for island in islands for index in island]
        cards = set(node.gpus.filter(present=True).values_list("index", flat=True))
        if len(flat) != len(set(flat)) or not set(flat) <= cards:
            raise CommandError(
                f"Each card of {node.name} may be named once; it has "
                f"{', '.join(map(str, sorted(cards)))}."
            )
        for name in ("rack", "block"):
            if len(options[name] or "") > 63:
                raise CommandError(f"The name of a {name} has at most 63 characters.")
        set_place(COMMAND, node, rack=options["rack"], block=options["block"], islands=islands)
        node.refresh_from_db()
        at = f"rack {node.rack or 'unknown'}, block {node.block or 'unknown'}"
        self.stdout.write(f"{node.name} stands in {at}; {len(islands) or 'as many'} islands.")


def _indexes(text: str) -> list[int]:
    """0-3 or 0+2+4 as numbers."""
    try:
        first, dash, last = text.partition("-")
        if dash:
            return list(range(int(first), min(int(last), 1024) + 1))
        return [int(index) for index in text.split("+")]
    except ValueError:
        raise CommandError(f"{text!r} is no island. Write 0-3 or 0+1.") from None
