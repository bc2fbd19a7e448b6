"""A node of one's own: the real cargo in a temporary folder, spoken to by `serve` and by `once`."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.cargo import build
from nodes.demo import nvml as look_alike
from nodes.remote import tree
from nodes.remote.paths import RunPaths
from nodes.remote.watchful import recorded

INSTANCE = "5b0c7a52-0000-4000-8000-000000000001"
LOOK_ALIKE = Path(look_alike.__file__)
PATIENCE_S = 20.0


def eventually(fact: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """The first true value of `fact`; a test that waits in vain says what it saw last."""
    until_s = time.monotonic() + patience_s
    found = fact()
    while not found:
        assert time.monotonic() < until_s, f"still {found!r} after {patience_s} s"
        time.sleep(0.01)
        found = fact()
    return found


class Serve:
    """One kept connection: requests by `ask`, events in `events`."""

    def __init__(self, node: "LocalNode", *options: str) -> None:
        self.process = subprocess.Popen(
            node.words("serve", *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=node.environment,
        )
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.events: list[dict[str, Any]] = []
        self.event_times: list[float] = []
        self.count = 0
        self.hello = json.loads(self.process.stdout.readline())
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            message = json.loads(line)
            if "event" in message:
                self.events.append(message["report"])
                self.event_times.append(time.time())
            else:
                self.answers.put(message)

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, verb: str, **args: Any) -> int:
        self.count += 1
        self.write(json.dumps({"v": 1, "id": self.count, "verb": verb, **args}).encode() + b"\n")
        return self.count

    def ask(self, verb: str, **args: Any) -> dict[str, Any]:
        number = self.send(verb, **args)
        answer = self.answers.get(timeout=PATIENCE_S)
        assert answer.pop("id") == number
        return answer

    def ok(self, verb: str, **args: Any) -> dict[str, Any]:
        answer = self.ask(verb, **args)
        assert "ok" in answer, answer
        return answer["ok"]

    def event(self, run: str, seq: int) -> dict[str, Any]:
        return eventually(lambda: [e for e in self.events if (e["run"], e["seq"]) == (run, seq)])[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> int:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(PATIENCE_S)


class LocalNode:
    """The cargo unpacked under `base`, with eight H100 of the look-alike."""

    def __init__(self, base: Path) -> None:
        self.root = base / "node"
        self.cargo = build()
        self.bin = self.root / "bin" / self.cargo.hash
        self.bin.mkdir(parents=True)
        for file in self.cargo.files:
            (self.bin / file.name).write_bytes(file.data)
            (self.bin / file.name).chmod(file.mode)
        self.state_file = base / "nvml.json"
        self.set_cards(look_alike.default_state("NVIDIA H100 80GB HBM3", 81559, 8, "test"))
        self.environment = {**os.environ, "GANGWAY_FAKE_NVML": str(self.state_file)}
        self.served: list[Serve] = []

    def set_cards(self, state: dict[str, Any]) -> None:
        self.state = state
        beside = self.state_file.with_suffix(".part")
        beside.write_text(json.dumps(state))
        beside.replace(self.state_file)

    @property
    def uuids(self) -> list[str]:
        return [card["uuid"] for card in self.state["gpus"]]

    def words(self, mode: str, *options: str) -> list[str]:
        own = ["--root", str(self.root), "--instance", INSTANCE]
        if not any(option.startswith("--nvml") for option in options):
            own += ["--nvml-module", str(LOOK_ALIKE)]
        return [sys.executable, "-I", str(self.bin / "gangway-node.pyz"), mode, *own, *options]

    def serve(self, *options: str) -> Serve:
        self.served.append(Serve(self, *options))
        return self.served[-1]

    def once(self, verb: str, *options: str, **args: Any) -> dict[str, Any]:
        return self.once_raw(json.dumps({"v": 1, "id": 1, "verb": verb, **args}), *options)

    def once_raw(self, line: str, *options: str) -> dict[str, Any]:
        done = subprocess.run(
            self.words("once", *options),
            input=line.encode() + b"\n",
            capture_output=True,
            env=self.environment,
            timeout=PATIENCE_S + 10,
            check=True,
        )
        answer = json.loads(done.stdout)
        answer.pop("id")
        return answer

    def folder(self, run: str) -> Path:
        return self.root / "runs" / run

    def fact(self, run: str, name: str) -> dict[str, Any]:
        """A file of the run, once it is there."""
        path = self.folder(run) / name
        eventually(path.exists)
        return json.loads(path.read_text())

    def log(self, run: str, name: str = "out.log") -> bytes:
        path = self.folder(run) / name
        return path.read_bytes() if path.exists() else b""

    def run(self, serve: Serve, run: str, command: str, **fields: Any) -> dict[str, Any]:
        """Prepare and go; the report of the start."""
        serve.ok("prepare", order=order(run, command, **fields))
        return serve.ok("go", run=run)["report"]

    def close(self) -> None:
        for serve in self.served:
            serve.kill()
        for folder in (self.root / "runs").glob("*"):
            end_all(self.root, folder)


def end_all(root: Path, folder: Path) -> None:
    """Kill what a test left of a run: keeper, children, whoever carries its marker."""
    claim = folder / "claim.json"
    if not claim.exists() or "pid" not in (fact := json.loads(claim.read_text())):
        return
    keeper = {fact["pid"]} if tree.is_alive(fact["pid"], fact["start"]) else set()
    from_keeper = tree.grown_from(tree.scan(), keeper)
    seen = recorded(RunPaths(root, folder.name))
    left = {process.pid for process in tree.of_run(str(folder), 0, seen)}
    for pid in from_keeper | left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def order(run: str, command: str = "true", **fields: Any) -> dict[str, Any]:
    """An order without cards, which any node takes; `fields` says what matters."""
    return {
        "format": 1,
        "run": run,
        "instance": INSTANCE,
        "job": 7,
        "attempt": 1,
        "name": "story",
        "team": "vision",
        "user_name": "alice",
        "command": command,
        "workdir": None,
        "env": {},
        "cards": [],
        "device_ids": "uuid",
        "launch": "per_node",
        "nnodes": 1,
        "node_rank": 0,
        "first_rank": 0,
        "ranks": 0,
        "world_size": 1,
        "master_addr": "127.0.0.1",
        "master_port": 0,
        "time_limit_s": None,
        "grace_s": 5,
        "signal": "TERM",
        "account": None,
        "disk_gib": 0,
        "log_max_mib": 64,
        "access": "process",
        **fields,
    }


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LocalNode]:
    local = LocalNode(tmp_path)
    yield local
    local.close()


@pytest.fixture
def serve(node: LocalNode) -> Serve:
    return node.serve()


@pytest.fixture
def outsider() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that no keeper knows, and ends them with the test."""
    begun: list[subprocess.Popen[bytes]] = []

    def begin(words: list[str], **environment: str) -> subprocess.Popen[bytes]:
        own = {"PATH": os.environ["PATH"], **environment}
        begun.append(subprocess.Popen(words, env=own, start_new_session=True))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()
