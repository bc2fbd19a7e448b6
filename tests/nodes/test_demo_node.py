"""A demo node is a machine: a cut cable ends nothing, switching it off ends all."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from nodes import channel, runs
from nodes.demo.processes import Processes
from nodes.models import Node
from nodes.transport import host_key_of, open_wire

from .machines import Demo, free_port, order, until


def started(node: Node, run: str, command: str) -> int:
    """Start a run that writes its pid; the pid."""
    file = Path(node.root).parent / f"{run}.pid"
    card = channel.ask(node, "probe", {}, 20)["gpus"][0]["uuid"]
    runs.prepare(node, order(run, f"echo $$ > {file}; {command}", card=card))
    runs.go(node, run)
    until(lambda: file.exists() and file.read_text().strip(), what="the run wrote its pid")
    return int(file.read_text())


def runs_now(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_run_goes_on_when_every_connection_is_dropped(own_demo):
    node = own_demo.node()
    pid = started(node, "1-1-0000000a", "sleep 600")

    channel.close_all()

    assert runs_now(pid)
    [report] = runs.look(node, ["1-1-0000000a"])["reports"]
    assert report["state"] == "started"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_switching_it_off_ends_its_runs_and_all_they_left_behind(own_demo, number):
    node = own_demo.node()
    away = "setsid env -i sh -c 'echo $$ > AWAY; exec sleep 600' & sleep 600"
    left = Path(node.root).parent / "away.pid"
    pid = started(node, "1-1-0000000a", away.replace("AWAY", str(left)))
    until(lambda: left.exists() and left.read_text().strip(), what="the escapee wrote its pid")

    own_demo.kill(number)

    assert own_demo.process.returncode == 0
    assert not runs_now(pid)
    assert not runs_now(int(left.read_text()))


def test_a_run_outlives_a_killed_server_and_the_next_one_ends_it(own_demo):
    node = own_demo.node()
    pid = started(node, "1-1-0000000a", "sleep 600")
    own_demo.kill(signal.SIGKILL)
    assert runs_now(pid)

    own_demo.start()
    channel.close_all()
    [report] = runs.look(node, ["1-1-0000000a"])["reports"]
    assert report["state"] == "started"
    own_demo.kill(signal.SIGTERM)

    assert not runs_now(pid)


def test_it_ends_with_the_process_that_started_it(tmp_path):
    port = free_port()
    parent = textwrap.dedent(f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "manage.py", "demo_node", "--name", "demo-t",
                          "--port", "{port}", "--root", {str(tmp_path)!r}])
        time.sleep(600)
    """)
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=settings.BASE_DIR)
    until(lambda: (tmp_path / "host_key").exists(), within_s=30, what="the demo node is up")
    until(lambda: _listens(port), within_s=30, what="the demo node listens")

    process.kill()
    process.wait()

    until(lambda: not _listens(port), what="the demo node ended")


def _listens(port: int) -> bool:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def test_its_host_key_is_the_same_after_a_restart(own_demo):
    before = host_key_of(own_demo.address, own_demo.port)
    own_demo.kill(signal.SIGTERM)
    own_demo.start()

    assert host_key_of(own_demo.address, own_demo.port) == before
    assert (own_demo.folder / "host_key").stat().st_mode & 0o077 == 0


def test_a_key_may_be_let_in_and_shut_out_while_it_runs(demo: Demo):
    door = demo.door()
    open_wire(door).close()
    lines = demo.authorized_keys.read_text().splitlines()

    demo.authorized_keys.write_text("\n".join(lines[:-1]) + "\n")

    with pytest.raises(Exception, match="does not let the portal's key in"):
        open_wire(door)


def test_its_commands_run_in_its_own_home(demo: Demo):
    wire = open_wire(demo.door())
    said = wire.run("pwd; echo $HOME; kill -9 $$", timeout_s=10)
    wire.close()

    assert said.stdout.decode().split() == [str(demo.folder / "home")] * 2
    assert said.status == 128 + signal.SIGKILL


def test_only_loopback_addresses_are_served(tmp_path):
    with pytest.raises(CommandError, match=r"0\.0\.0\.0 is not a loopback address"):
        call_command("demo_node", name="a", root=str(tmp_path), port=1, bind="0.0.0.0")  # noqa: S104


def test_a_taken_port_is_told_in_a_sentence(demo: Demo, tmp_path):
    command = [sys.executable, "manage.py", "demo_node", "--name", "b"]
    command += ["--port", str(demo.port), "--root", str(tmp_path)]
    said = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True)

    assert said.returncode == 1
    assert f"Port {demo.port} of 127.0.0.1 cannot be used" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_node_ends_nothing_that_it_did_not_start(tmp_path):
    bystander = subprocess.Popen(["sleep", "600"])
    node = Processes(tmp_path, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    child = node.start("sleep 600")
    try:
        node.end_all(patience_s=1)
        assert child.wait(5) == -signal.SIGKILL
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_far_node_answers_later(tmp_path):
    far = Demo(tmp_path / "far", "--delay-ms", "300")
    try:
        wire = open_wire(far.door())
        begun = time.monotonic()
        wire.run("true", timeout_s=10)
        wire.close()
        assert time.monotonic() - begun >= 0.3
    finally:
        far.kill(signal.SIGTERM)
