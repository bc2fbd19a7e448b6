"""Machines to log in to. ``machine`` is each kind in turn: a demo node, and Debian's sshd."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes import channel, hearing
from nodes.demo import nvml

from .machines import Demo, Machine, OpenSsh, Proxy


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> Iterator[Demo]:
    """One demo node for all stories that do not stop it."""
    node = Demo(tmp_path_factory.mktemp("demo"))
    yield node
    node.kill(15)


@pytest.fixture(scope="session")
def openssh(tmp_path_factory) -> Iterator[OpenSsh]:
    """Debian's sshd for all stories that do not stop it."""
    folder = tmp_path_factory.mktemp("openssh")
    cards = nvml.default_state("NVIDIA H100 80GB HBM3", 81559, 8, "openssh")
    (folder / "nvml.json").write_text(json.dumps(cards))
    server = OpenSsh(folder, "127.0.5.1")
    yield server
    server.kill()


@pytest.fixture(params=["demo", pytest.param("openssh", marks=pytest.mark.needs("sshd"))])
def machine(request) -> Machine:
    found: Machine = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def own_demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo node that the story may kill."""
    node = Demo(tmp_path / "demo")
    yield node
    if node.process.poll() is None:
        node.kill(15)


@pytest.fixture
def proxy(machine: Machine) -> Iterator[Proxy]:
    cable = Proxy(machine)
    yield cable
    cable.close()


@pytest.fixture(autouse=True)
def _a_slow_machine_is_waited_for(monkeypatch) -> None:
    """Stories are not about how fast the tests' machine is; those about patience set their own."""
    monkeypatch.setattr(channel, "FIRST_WAIT_S", 20.0)


@pytest.fixture(autouse=True)
def _nothing_stays_connected() -> Iterator[None]:
    yield
    channel.close_all()
    hearing.listen(None)
