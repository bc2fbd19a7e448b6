"""How many bookings a second the service takes, and whether each slot has exactly one winner.

A PostgreSQL of its own, as a portal would have it; no portal. Writers are threads of a few
processes (``booking_writer``), each slot (a card for an hour) is wanted by several of them.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from cryptography.fernet import Fernet

from portal.embedded.foreground import running
from portal.embedded.postgres import Postgres, forget_socket_dir, new_socket_dir
from portal.supervisor.options import BASE_DIR

from . import figures
from .booking_writer import CARDS, PROCESSES

LEAST = {"bookings_per_s": 400.0}
MOST = {"double_winners": 0.0, "slots_without_winner": 0.0, "errors": 0.0}


def run(writers: int, hours: int, tries: int, *, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure: ``writers`` book ``hours`` slots of each card, each slot tried by ``tries``."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gangway-bench-")))
        socket_dir = new_socket_dir()
        stack.callback(forget_socket_dir, socket_dir)
        server = Postgres(folder / "postgres", socket_dir)
        stack.enter_context(running(server, log=folder / "postgres.log"))
        environment = os.environ | {
            "DATABASE_URL": server.url,
            "GANGWAY_HOME": str(folder),
            "GANGWAY_HINTS": "0",
            "GANGWAY_SECRET_KEY": "bench-only-" + "0" * 50,
            "GANGWAY_SECRET_KEYS": Fernet.generate_key().decode(),
            "GANGWAY_LOG_LEVEL": "ERROR",
        }
        say("making the tables and 64 cards")
        _call(["manage.py", "migrate", "--verbosity", "0"], environment)
        _call(["manage.py", "bench", "reserve", "--role", "prepare"], environment)
        say(f"{writers} writers, {CARDS * hours} slots, {tries} tries for each")
        said, seconds = _race(writers, hours, tries, environment)
        with psycopg.connect(server.url) as connection:
            rows = connection.execute(_WINNERS).fetchall()
    won = sum(one["won"] for one in said)
    results = {
        "bookings_per_s": round(won / seconds, 1),
        "tries_per_s": round(sum(one["won"] + one["taken"] for one in said) / seconds, 1),
        "bookings": won,
        "taken": sum(one["taken"] for one in said),
        "double_winners": sum(count > 1 for (count,) in rows),
        "slots_without_winner": CARDS * hours - len(rows),
        "errors": sum(one["errors"] for one in said),
        "seconds": round(seconds, 2),
    }
    return figures.answer("reserve", results, most=MOST, least=LEAST)


_WINNERS = """
SELECT count(*) FROM scheduling_reservationcard WHERE live GROUP BY card_id, lower(during)
"""


def _race(
    writers: int, hours: int, tries: int, environment: dict[str, str]
) -> tuple[list[dict[str, int]], float]:
    """Start the processes, let them go at once. Returns what each counted, and the seconds."""
    processes = [
        subprocess.Popen(  # noqa: S603 - argv is built by us, no shell
            [sys.executable, "manage.py", "bench", "reserve", "--role", str(number),
             "--writers", str(writers), "--hours", str(hours), "--tries", str(tries)],
            cwd=BASE_DIR, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        process.stdout.readline()
    began = time.monotonic()
    for process in processes:
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [json.loads(process.communicate()[0]) for process in processes]
    return said, time.monotonic() - began


def _call(arguments: list[str], environment: dict[str, str]) -> None:
    subprocess.run(  # noqa: S603 - argv is built by us, no shell
        [sys.executable, *arguments], cwd=BASE_DIR, env=environment, check=True
    )
