"""Real SSH servers on loopback for the stories of this floor, and a proxy that breaks cables."""

import contextlib
import getpass
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from django.conf import settings

from nodes import cargo, keys, transport
from nodes.demo import nvml
from nodes.demo.processes import Processes
from nodes.demo.server import DemoNode
from nodes.models import Node
from tests.needs import program

NVML = str(Path(nvml.__file__).resolve())
NUMBERS = itertools.count(1_000_000)


def until(condition: Callable[[], object], *, within_s: float = 10.0, what: str = "") -> None:
    """Wait for a condition; fail with its name when the deadline passes."""
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {within_s} s: {what or condition}"
        time.sleep(0.01)


def free_port(address: str = "127.0.0.1") -> int:
    with socket.create_server((address, 0)) as listener:
        return listener.getsockname()[1]


class Machine:
    """A machine that the portal can log in to: address, port, account, folder."""

    address = "127.0.0.1"

    def __init__(self, folder: Path, port: int, account: str) -> None:
        self.folder, self.port, self.account = folder, port, account
        self.authorized_keys = folder / "authorized_keys"

    def node(self, **changes: object) -> Node:
        """A node on this machine that is let in and has no row: it reads and writes none."""
        pair = keys.new_pair()
        line = keys.authorized_line(pair.public, name="test", source="127.0.0.0/8")
        with self.authorized_keys.open("a") as file:
            file.write(line + "\n")
        number = next(NUMBERS)
        fields = {
            "pk": number,
            "name": f"node-{number}",
            "address": self.address,
            "port": self.port,
            "account": self.account,
            "host_key": transport.host_key_of(self.address, self.port),
            "public_key": pair.public,
            "private_key": pair.sealed,
            "root": str(self.folder / f"own-{number}" / "root"),
            "nvml_module": NVML,
        }
        return Node(**{**fields, **changes})

    def door(self, **changes: str) -> transport.Door:
        node = self.node()
        fields = {
            "address": node.address,
            "port": node.port,
            "account": node.account,
            "private_key": keys.opened(node.private_key),
            "host_key": node.host_key,
        }
        return transport.Door(**{**fields, **changes})


class Demo(Machine):
    """``manage.py demo_node`` as a process of its own."""

    def __init__(self, folder: Path, *extra: str) -> None:
        super().__init__(folder, free_port(), "anybody")
        self._extra = extra
        self.start()

    def start(self) -> None:
        command = [sys.executable, "manage.py", "demo_node", "--name", "demo-t"]
        command += ["--port", str(self.port), "--root", str(self.folder), *self._extra]
        self.process = subprocess.Popen(command, cwd=settings.BASE_DIR)
        until(lambda: answers(self.address, self.port), within_s=30, what="demo node answers")

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(20)


class OpenSsh(Machine):
    """Debian's sshd on an address of its own, for the account that runs the tests."""

    def __init__(self, folder: Path, address: str, *extra: str) -> None:
        super().__init__(folder, free_port(address), getpass.getuser())
        self.address, self._extra = address, extra
        nvml_state = folder / "nvml.json"
        (folder / "home").mkdir(exist_ok=True)
        # Its own home: the account's real one may hold a .bashrc that takes long.
        home = f"HOME={folder}/home"
        self._environment = f"{home} PATH={os.environ['PATH']} GANGWAY_FAKE_NVML={nvml_state}"
        self.new_host_key()
        self.start()

    def new_host_key(self) -> None:
        file = self.folder / "host_key"
        file.unlink(missing_ok=True)
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)]
        subprocess.run(make, check=True)

    def start(self) -> None:
        config = self.folder / "sshd_config"
        config.write_text(
            f"ListenAddress {self.address}:{self.port}\nHostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.authorized_keys}\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
            f"MaxStartups 200\nSetEnv {self._environment}\n" + "\n".join(self._extra) + "\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        self.process = subprocess.Popen(
            [program("sshd"), "-D", "-e", "-f", str(config)],
            stderr=(self.folder / "sshd.log").open("ab"),
        )
        until(lambda: answers(self.address, self.port), what="sshd answers")

    def kill(self) -> None:
        """End the listener and every session of it, as a machine that lost its sshd."""
        for pid in [*sessions_of(self.process.pid), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)


def sessions_of(sshd: int) -> list[int]:
    """The sshd processes below a listener; what they started is not among them."""
    found, level = [], [sshd]
    while level:
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True)
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        level = [int(p) for p, parent, name in rows if int(parent) in level and "sshd" in name]
        found += level
    return found


def answers(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def odd_demo(folder: Path, environment: dict[str, str]) -> Iterator[Machine]:
    """A demo node in this process with an odd environment, such as a PATH without python3."""
    home = folder / "home"
    home.mkdir(parents=True)
    processes = Processes(folder, {"HOME": str(home), "PATH": os.environ["PATH"], **environment})
    server = DemoNode(folder, "127.0.0.1", 0, processes=processes)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield Machine(folder, server.port, "anybody")
    finally:
        server.stop()


class Proxy:
    """A cable to a machine. It can be cut once so many bytes went through, either way."""

    def __init__(self, machine: Machine) -> None:
        self._target = (machine.address, machine.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.passed = 0
        self._cut_at: int | None = None
        self._lock = threading.Lock()
        self._pairs: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, count: int | None) -> None:
        """Cut all that is connected as soon as ``count`` more bytes passed; once."""
        with self._lock:
            self._cut_at = None if count is None else self.passed + count

    def cut(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for end in pairs:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(self._target)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(a, b), daemon=True).start()

    def _copy(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                allowed = self._pass(len(piece))
                to.sendall(piece[:allowed])
                if allowed < len(piece):
                    self.cut()
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pass(self, count: int) -> int:
        with self._lock:
            self.passed += count
            if self._cut_at is None or self.passed <= self._cut_at:
                return count
            over, self._cut_at = self.passed - self._cut_at, None
            return max(0, count - over)


def runner_of(node: Node) -> list[int]:
    """Pids of the runners that serve this node's root, without their probe children."""
    found, parents = [], {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if node.root.encode() in words and b"serve" in words:
                found.append(int(entry.name))
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(stat[1])
    return [pid for pid in found if parents[pid] not in found]


def order(run: str, command: str, *, card: str, **changes: object) -> dict[str, object]:
    """A one-card order with the dull fields filled in."""
    dull = {
        "format": 1, "run": run, "instance": settings.GANGWAY_INSTANCE, "job": 1, "attempt": 1,
        "name": "story", "team": "vision", "user_name": "alice", "command": command,
        "workdir": None, "env": {}, "cards": [card], "device_ids": "uuid", "launch": "per_node",
        "nnodes": 1, "node_rank": 0, "first_rank": 0, "ranks": 1, "world_size": 1,
        "master_addr": "127.0.0.1", "master_port": free_port(), "time_limit_s": None,
        "grace_s": 5, "signal": "TERM", "account": None, "disk_gib": 0, "log_max_mib": 16,
        "access": "process",
    }  # fmt: skip
    return {**dull, **changes}


def cargo_there(node: Node) -> bool:
    return (Path(node.root) / "bin" / cargo.build().hash).is_dir()
