"""``make up`` itself, with nothing given: every process killed once comes back, and all stop."""

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portal.embedded.valkey import free_port
from portal.supervisor import home, leftovers
from portal.supervisor.options import BASE_DIR

from .test_supervisor import eventually

NAMES = ["postgres", "valkey", "web", "control", "nodes", "beat"]


def answers(url: str) -> bool:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    try:
        connection.request("GET", "/signin/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Up:
    """A portal of its own, in its own folder and on its own port."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        unset = {"DATABASE_URL": "", "REDIS_URL": ""}
        mine = {"GANGWAY_HOME": str(folder), "GANGWAY_BIND": self.url.removeprefix("http://")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "portal.supervisor"],
            cwd=BASE_DIR,
            env={**os.environ, **unset, **mine, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said_until(self, last: str) -> str:
        """What it prints up to the line that begins so."""
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith(last):
                return "".join(lines)
        raise AssertionError(f"it ended before it said so: {self.stop()}")

    def entries(self) -> dict[str, leftovers.Record]:
        listed = home.read(self.folder / "processes.json").get("processes", [])
        return {entry["name"]: entry for entry in listed}

    def nodes(self, token: str) -> list[dict[str, Any]]:
        """The nodes as the API lists them."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=30)
        connection.request("GET", "/api/v1/nodes", headers={"Authorization": f"Bearer {token}"})
        listed: list[dict[str, Any]] = json.load(connection.getresponse())["results"]
        connection.close()
        return listed

    def stop(self) -> str:
        if self.process.poll() is not None:
            return ""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=60)[1]


@pytest.fixture
def up(tmp_path):
    """Start a portal in the same folder, once or again."""
    started: list[Up] = []

    def start(**environment: str) -> Up:
        started.append(Up(tmp_path / "home", **environment))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def test_each_process_killed_outright_comes_back_and_ctrl_c_leaves_none(up, tmp_path):
    (tmp_path / "home").mkdir()
    home.write_private(tmp_path / "home/demo.json", {"users": {}})  # it was a demo once
    portal_up = up(GANGWAY_DEMO="0")
    portal_up.said_until("Ctrl-C")
    assert not (tmp_path / "home/demo.json").exists()
    assert sorted(portal_up.entries()) == sorted(NAMES)

    for name in NAMES:
        before = portal_up.entries()[name]
        os.kill(before["pid"], signal.SIGKILL)
        eventually(lambda b=before, n=name: portal_up.entries().get(n, b)["pid"] != b["pid"])
    eventually(lambda: answers(portal_up.url), within_s=60)

    services = json.loads((portal_up.folder / "services.json").read_text())
    last = list(portal_up.entries().values())
    said = portal_up.stop()

    assert portal_up.process.returncode == 0
    assert not any(map(leftovers.alive, last))
    assert not Path(services["socket_dir"]).exists()
    assert [said.count(f"{name} was ended by signal 9") for name in NAMES] == [1] * len(NAMES)


def test_the_demo_shows_its_passwords_once_and_finds_its_nodes_again(up):
    first = up(GANGWAY_DEMO_NODES="2")
    shown = first.said_until("Ctrl-C")
    people = home.read(first.folder / "demo.json")["users"]
    enrolled = first.nodes(people["root"]["token"])
    first.stop()

    second = up(GANGWAY_DEMO_NODES="2")
    shown_again = second.said_until("Ctrl-C")

    assert [n["name"] for n in enrolled] == ["demo-a", "demo-b"]
    assert [len(n["gpus"]) for n in enrolled] == [8, 8]
    assert all(p["password"] in shown for p in people.values())
    assert not any(p["password"] in shown_again for p in people.values())
    assert home.read(second.folder / "demo.json")["users"] == people
    uuids = [[g["uuid"] for g in n["gpus"]] for n in enrolled]
    again = second.nodes(people["root"]["token"])
    assert [[g["uuid"] for g in n["gpus"]] for n in again] == uuids
    eventually(lambda: all(n["liveness"] == "up" for n in second.nodes(people["root"]["token"])))
