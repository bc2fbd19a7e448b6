"""``manage.py bench``: measure the portal; the last line of stdout is the answer as JSON."""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.bench import (
    booking_writer,
    crowd,
    explaining,
    faults,
    figures,
    handing,
    latency,
    reserving,
    stage,
    throughput,
)
from portal.client import Client, ClientError


class Command(BaseCommand):
    """Exit code 0 says that the measurement took place; ``ok`` in the answer, how it went."""

    help = "Measure latency, throughput, or what survives when processes are killed."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        names = parser.add_subparsers(dest="bench", required=True, metavar="NAME")
        _latency_options(names.add_parser("latency", help="accepted -> process started"))
        _throughput_options(names.add_parser("throughput", help="short jobs a second"))
        _explain_options(names.add_parser("explain", help="is what waiting jobs are told true?"))
        _reserve_options(names.add_parser("reserve", help="many writers book the same slots"))
        _preempt_options(names.add_parser("preempt", help="accepted -> started, others leave"))
        _faults_options(names.add_parser("faults", help="kill processes, count what is lost"))

    def handle(self, *args: Any, **options: Any) -> None:
        measure: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "latency": self._latency,
            "throughput": self._throughput,
            "faults": self._faults,
            "explain": self._explain,
            "preempt": self._preempt,
            "reserve": self._reserve,
        }
        try:
            said = measure[options["bench"]](options)
        except (stage.StageError, ClientError) as failed:
            raise CommandError(str(failed)) from failed
        if said:
            self.stdout.write(figures.line(said))

    def _say(self, text: str) -> None:
        self.stderr.write(f"{time.strftime('%H:%M:%S')} {text}", style_func=str)

    def _latency(self, options: dict[str, Any]) -> dict[str, Any]:
        jobs, team = options["jobs"], options["team"]
        if options["private"]:
            with stage.private(demo_nodes=1, say=self._say) as own:
                return latency.run(own.client("alice"), team=team, jobs=jobs, say=self._say)
        if options["url"] or options["token"]:
            client = Client(options["url"], options["token"])
        else:
            client = stage.running(Path(settings.GANGWAY_HOME)).client("alice")
        return latency.run(client, team=team, jobs=jobs, say=self._say)

    def _throughput(self, options: dict[str, Any]) -> dict[str, Any]:
        nodes, keep = throughput.nodes_for(options["slots"]), options["keep"]
        with stage.private(demo_nodes=nodes, say=self._say, keep=keep) as own:
            return throughput.run(
                own,
                jobs=options["jobs"],
                slots=options["slots"],
                straight=options["straight"],
                say=self._say,
            )

    def _faults(self, options: dict[str, Any]) -> dict[str, Any]:
        seed = options["seed"] if options["seed"] is not None else time.time_ns() % 1_000_000
        plan = crowd.rounds(seed, options["rounds"], options["kill"])
        self._say(f"seed {seed}")
        with stage.private(demo_nodes=3, say=self._say, keep=options["keep"]) as own:
            return faults.run(own, plan, seed=seed, say=self._say)

    def _preempt(self, options: dict[str, Any]) -> dict[str, Any]:
        with stage.private(demo_nodes=1, say=self._say, keep=options["keep"]) as own:
            loser, winner = own.client("alice"), own.client("bob")
            return handing.run(loser, winner, rounds=options["rounds"], say=self._say)

    def _reserve(self, options: dict[str, Any]) -> dict[str, Any]:
        if options["role"]:
            return self._writer(options)
        return reserving.run(options["writers"], options["hours"], options["tries"], say=self._say)

    def _writer(self, options: dict[str, Any]) -> dict[str, Any]:
        """One of the processes that the measurement starts."""
        if options["role"] == "prepare":
            booking_writer.prepare()
        else:
            shape = options["writers"], options["hours"], options["tries"]
            booking_writer.race(int(options["role"]), *shape)
        return {}

    def _explain(self, options: dict[str, Any]) -> dict[str, Any]:
        return explaining.run(options["worlds"], seed=options["seed"], say=self._say)


def _reserve_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--writers", type=_count, default=50)
    parser.add_argument("--hours", type=_count, default=24, help="slots of each of 64 cards")
    parser.add_argument("--tries", type=_count, default=2, help="writers that want each slot")
    parser.add_argument("--role", default="", help=argparse.SUPPRESS)


def _explain_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worlds", type=_count, default=500)
    parser.add_argument("--seed", type=int, default=0, help="of the first world")


def _preempt_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=_count, default=5)
    parser.add_argument("--keep", action="store_true", help="leave the portal's folder")


def _latency_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=_count, default=100)
    parser.add_argument("--url", default="", help="of the portal; else the one of make up")
    parser.add_argument("--token", default="")
    parser.add_argument("--team", default="vision")
    parser.add_argument("--private", action="store_true", help="start a portal for it")


def _throughput_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=_count, default=1000)
    parser.add_argument("--slots", type=_count, default=throughput.MOST_SLOTS)
    parser.add_argument("--straight", action="store_true", help="run while submitting")
    parser.add_argument("--keep", action="store_true", help="leave the portal's folder")


def _faults_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=_count, default=50)
    parser.add_argument("--kill", type=_names, default=list(faults.NAMES), metavar="NAME,NAME")
    parser.add_argument("--seed", type=int, help="of an earlier run, to play it again")
    parser.add_argument("--keep", action="store_true", help="leave the portal's folder")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return int(text)


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in faults.NAMES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{text!r}: give some of {','.join(faults.NAMES)}")
    return names
