"""What ``bench reserve`` does inside its processes: make the cards, and write bookings.

Runs in a process of its own (``--role``) with a database of its own; waits for a line on stdin.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import User
from django.db import connection

from nodes import clock
from nodes.models import Gpu, Node
from scheduling import booking_orders
from scheduling.actors import COMMAND
from scheduling.errors import Taken
from scheduling.models import BookingRule, Ledger, Team
from scheduling.services import nodes, reservations

CARDS, PER_NODE, PROCESSES = 64, 8, 4


def prepare() -> None:
    """64 cards on 8 nodes, a team without limits, a person."""
    at = clock.now()
    for number in range(CARDS // PER_NODE):
        node = Node.objects.create(
            name=f"n{number}", address="127.0.0.1", host_key="-", private_key="-",
            public_key="-", root="/nowhere", cpus=64, memory_mib=1 << 19, disk_gib=1000,
            boot_id="-", seen_at=at, probed_at=at,
        )  # fmt: skip
        Gpu.objects.bulk_create(
            Gpu(
                uuid=uuid_of(number * PER_NODE + index), node=node, index=index, model="H100",
                product="H100", memory_mib=81559, seen_at=at,
            )
            for index in range(PER_NODE)
        )  # fmt: skip
        nodes.put_to_work(COMMAND, node)
    Team.objects.create(name="bench")
    User.objects.create(username="bench")
    BookingRule.objects.create(open_at_once=None)
    Ledger.objects.get_or_create(pk=1)


def race(number: int, writers: int, hours: int, tries: int) -> None:
    """Book this process's share of the slots, and print what came of it."""
    mine = [writer for writer in range(writers) if writer % PROCESSES == number]
    # The same in every process.
    start = (clock.now() + timedelta(days=2)).astimezone(UTC)
    start = start.replace(hour=0, minute=0, second=0, microsecond=0)
    user = User.objects.get()
    connection.close()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with ThreadPoolExecutor(max(len(mine), 1)) as crowd:
        told = list(crowd.map(lambda one: _write(one, writers, hours, tries, start, user.pk), mine))
    counts = {name: sum(one[name] for one in told) for name in ("won", "taken", "errors")}
    sys.stdout.write(json.dumps(counts) + "\n")


def uuid_of(card: int) -> str:
    """The UUID of a card by its number."""
    return f"GPU-{card:02}"


def _write(
    writer: int, writers: int, hours: int, tries: int, start: datetime, user_id: int
) -> dict[str, int]:
    """Each slot is the wish of ``tries`` writers next to each other, who come to it together."""
    counts = {"won": 0, "taken": 0, "errors": 0}
    for slot in range(CARDS * hours):
        if (writer - slot * tries) % writers >= tries:
            continue
        hour, card = divmod(slot, CARDS)
        order = booking_orders.parse(
            {
                "team": "bench",
                "cards": [uuid_of(card)],
                "start": (start + timedelta(hours=hour)).isoformat(),
                "duration": "1h",
            }
        )
        try:
            reservations.create(COMMAND, order, user_id=user_id, at=clock.now())
            counts["won"] += 1
        except Taken:
            counts["taken"] += 1
        except Exception as wrong:
            counts["errors"] += 1
            sys.stderr.write(f"{time.time():.1f} {wrong!r}\n")
    connection.close()
    return counts
