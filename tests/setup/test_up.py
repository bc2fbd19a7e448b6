"""``make up`` itself, with nothing given: every process killed once comes back, and all stop."""

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        unset = {"DATABASE_URL": "", "REDIS_URL": ""}
        mine = {"GANGWAY_HOME": str(folder), "GANGWAY_BIND": self.url.removeprefix("http://")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "portal.supervisor"],
            cwd=BASE_DIR,
            env={**os.environ, **unset, **mine, "GANGWAY_DEMO": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def entries(self) -> dict[str, leftovers.Record]:
        listed = home.read(self.folder / "processes.json").get("processes", [])
        return {entry["name"]: entry for entry in listed}

    def stop(self) -> str:
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=60)[1]


@pytest.fixture
def portal_up(tmp_path):
    up = Up(tmp_path / "home")
    assert up.process.stdout.readline() == f"Gangway answers at {up.url}\n", up.stop()
    yield up
    up.stop()


def test_each_process_killed_outright_comes_back_and_ctrl_c_leaves_none(portal_up):
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
