"""A portal of its own for a measurement: own folder, own port, own demo nodes, gone afterwards."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from portal.client import Client
from portal.embedded.lifeline import tied_to_parent
from portal.embedded.valkey import free_port
from portal.supervisor import demo, home
from portal.supervisor.options import BASE_DIR

STOP_LIMIT_S = 60.0
OTHERS = ("DATABASE_URL", "REDIS_URL", "GANGWAY_INSTANCE", "GANGWAY_SECRET_KEY", "GANGWAY_URL")


class StageError(Exception):
    """The portal to be measured is not there; the sentence says what to do."""


class Stage:
    """A running portal: ``folder`` is its GANGWAY_HOME, ``url`` where it answers."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    def client(self, person: str, *, patience_s: float = 30.0) -> Client:
        """A client with that demo person's token, for one thread."""
        user = self._people().get(person)
        if user is None:
            raise StageError(
                f"{self.folder / 'demo.json'} names no {person}. "
                "Run make up with its demo, or give --url and --token."
            )
        return Client(self.url, user["token"], timeout_s=20.0, patience_s=patience_s)

    def _people(self) -> dict[str, Any]:
        users: dict[str, Any] = home.read(self.folder / "demo.json").get("users", {})
        return users

    def pid_of(self, name: str) -> int | None:
        """The process of that name that was last started, None while there is none."""
        return self.pids().get(name)

    def pids(self) -> dict[str, int]:
        """Name -> process id of all that were started last."""
        listed = home.read(self.folder / "processes.json").get("processes", [])
        return {entry["name"]: entry["pid"] for entry in listed}

    @contextmanager
    def database(self) -> Iterator[psycopg.Connection[Any]]:
        """Its database, to look at; each statement stands for itself."""
        url = home.read(self.folder / "services.json")["database_url"]
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection


def running(folder: Path) -> Stage:
    """The portal that `make up` keeps running in ``folder``. Raises StageError if none does."""
    known = home.read(folder / "demo.json")
    if not known.get("url") or not (folder / "processes.json").exists():
        raise StageError(
            f"No portal with a demo runs in {folder}. "
            "Start it with make up, give --url and --token, or --private for one of its own."
        )
    return Stage(folder, known["url"])


@contextmanager
def private(*, demo_nodes: int, say: Any, keep: bool = False) -> Iterator[Stage]:
    """Start a portal in a temporary folder; it is stopped and the folder removed at the end.

    ``keep`` leaves the folder, with its logs. Raises StageError if it does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="gangway-bench-"))
    bind = f"127.0.0.1:{free_port()}"
    environment = {name: value for name, value in os.environ.items() if name not in OTHERS}
    environment |= {
        "GANGWAY_HOME": str(folder),
        "GANGWAY_BIND": bind,
        "GANGWAY_DEMO": "1",
        "GANGWAY_DEMO_NODES": str(demo_nodes),
    }
    # Two portals that start at once would look for ports from the same end.
    demo.nodes(folder, demo_nodes, ports=random.sample(demo.PORTS, len(demo.PORTS)))
    say(f"starting a portal with {demo_nodes} demo nodes in {folder}")
    process = _start(environment)
    try:
        _await_address(process, folder)
        yield Stage(folder, f"http://{bind}")
    finally:
        _stop(process)
        if keep:
            say(f"its folder stays: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _start(environment: dict[str, str]) -> "subprocess.Popen[str]":
    log = Path(environment["GANGWAY_HOME"]) / "supervisor.log"
    with log.open("ab") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "portal.supervisor"],
            cwd=BASE_DIR,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            start_new_session=True,
            preexec_fn=tied_to_parent(signal.SIGTERM),
        )


def _await_address(process: "subprocess.Popen[str]", folder: Path) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe, see above
    first = process.stdout.readline()
    if not first.startswith("Gangway answers"):
        said = (folder / "supervisor.log").read_text().strip() or "nothing"
        raise StageError(f"The portal did not start; it said: {said}")
    threading.Thread(target=process.stdout.read, daemon=True).start()


def _stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
