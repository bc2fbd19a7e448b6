"""The supervisor: one instance, restarts, leftovers, and a folder whose secrets stay secret."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.supervisor import home, leftovers, options
from portal.supervisor.backoff import Backoff
from portal.supervisor.children import LOG_LIMIT_BYTES, Child, rotate
from portal.supervisor.errors import StartError
from portal.supervisor.options import BASE_DIR
from portal.supervisor.supervise import Supervisor

WATCH_TWO = """
import pathlib, sys
from portal.supervisor.children import Child
from portal.supervisor.supervise import Supervisor
home = pathlib.Path(sys.argv[1])
supervisor = Supervisor(home / "processes.json")
for name in ("one", "two"):
    words = ["sleep", "600"]
    supervisor.add(Child(name, words, {"PATH": "/usr/bin:/bin"}, home, home / f"{name}.log", 1))
supervisor.watch()
"""


def eventually(claim: Callable[[], object], *, within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not claim():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def start(words: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=BASE_DIR,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def up(**environment: str) -> subprocess.Popen[str]:
    return start(["-m", "portal.supervisor"], **environment)


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def child(folder: Path, *words: str) -> Child:
    return Child("it", words, dict(os.environ), folder, folder / "it.log", 1)


def test_a_second_instance_in_the_folder_is_refused_with_a_sentence(tmp_path):
    with home.lock(tmp_path):
        second = up(GANGWAY_HOME=str(tmp_path))
        _, said = second.communicate(timeout=30)

    assert second.returncode == 1
    assert f"already runs in {tmp_path} (process {os.getpid()})" in said
    assert "Traceback" not in said


def test_a_taken_port_is_refused_with_a_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        late = up(GANGWAY_HOME=str(tmp_path), GANGWAY_BIND=f"127.0.0.1:{port}")
        _, said = late.communicate(timeout=30)

    assert late.returncode == 1
    assert f"port {port}: Address already in use" in said
    assert "GANGWAY_BIND" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("bind", ["0.0.0.0:8000", "[::]:8000", "192.0.2.7:80", "portal.example:80"])
def test_the_demo_is_refused_beyond_loopback(bind):
    with pytest.raises(StartError, match="GANGWAY_DEMO=0"):
        options.read({"GANGWAY_BIND": bind})

    assert options.read({"GANGWAY_BIND": bind, "GANGWAY_DEMO": "0"}).demo is False


@pytest.mark.parametrize("bind", ["8000", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "h:x"])
def test_an_address_that_is_none_is_refused(bind):
    with pytest.raises(StartError, match="not an address and a port"):
        options.read({"GANGWAY_BIND": bind})


def test_back_off_doubles_up_to_thirty_seconds_and_a_minute_of_life_begins_anew():
    waits, backoff = [], Backoff()
    for _ in range(8):
        wait_s, backoff = backoff.after(0.1)
        waits.append(wait_s)

    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert backoff.after(60.0) == (0.5, Backoff(1.0))


def test_a_dead_child_is_told_of_once_and_started_again(tmp_path, capsys):
    supervisor = Supervisor(tmp_path / "processes.json")
    it = supervisor.add(child(tmp_path, "sleep", "600"))
    first = it.process.pid

    os.kill(first, signal.SIGKILL)
    eventually(lambda: supervisor.tend() or (it.process and it.process.pid != first))

    assert capsys.readouterr().err.count("it was ended by signal 9") == 1
    (recorded,) = home.read(tmp_path / "processes.json")["processes"]
    assert recorded["pid"] == it.process.pid
    supervisor.stop()


def test_what_a_dead_child_had_started_itself_goes_with_it(tmp_path):
    supervisor = Supervisor(tmp_path / "processes.json")
    it = supervisor.add(child(tmp_path, "sh", "-c", "sleep 600 & echo $! > inner; wait"))
    eventually(lambda: (tmp_path / "inner").exists() and (tmp_path / "inner").read_text())
    inner = int((tmp_path / "inner").read_text())

    os.kill(it.process.pid, signal.SIGKILL)
    eventually(lambda: it.died() is not None)

    eventually(lambda: leftovers.start_ticks(inner) is None)


def test_a_stop_asks_first_and_kills_what_does_not_listen(tmp_path):
    supervisor = Supervisor(tmp_path / "processes.json")
    polite = supervisor.add(
        child(tmp_path, "sh", "-c", "trap 'echo bye; exit' TERM; sleep 600 & wait")
    )
    deaf = Child(
        "deaf",
        ["sh", "-c", "trap '' TERM; echo set; sleep 600"],
        dict(os.environ),
        tmp_path,
        tmp_path / "deaf.log",
        2,
        grace_s=0.3,
    )
    supervisor.add(deaf)
    eventually(lambda: "set" in (tmp_path / "deaf.log").read_text())
    pids = [polite.process.pid, deaf.process.pid]

    supervisor.stop()

    assert [leftovers.start_ticks(pid) for pid in pids] == [None, None]
    assert "bye" in (tmp_path / "it.log").read_text()
    assert not (tmp_path / "processes.json").exists()


def test_a_stop_does_not_stumble_over_a_child_that_is_dead_already(tmp_path):
    supervisor = Supervisor(tmp_path / "processes.json")
    it = supervisor.add(child(tmp_path, "true"))
    eventually(lambda: leftovers.start_ticks(it.process.pid) is None)

    supervisor.stop()

    assert it.process is None


def test_children_die_with_a_supervisor_that_is_killed_outright(tmp_path):
    supervisor = start(["-c", WATCH_TWO, str(tmp_path)])
    listed = lambda: home.read(tmp_path / "processes.json").get("processes", [])  # noqa: E731
    eventually(lambda: len(listed()) == 2)
    entries = listed()

    supervisor.kill()
    supervisor.communicate()

    eventually(lambda: not any(map(leftovers.alive, entries)))


def test_what_a_killed_supervisor_left_is_stopped_before_the_next_start(tmp_path, sleeper):
    path = tmp_path / "processes.json"
    leftovers.write(path, [leftovers.record("web", sleeper.pid)])

    assert leftovers.stop(path) == ["web"]
    assert sleeper.wait(5) == -signal.SIGTERM
    assert not path.exists()


@pytest.mark.parametrize("changed", [{"start_ticks": 1}, {"boot_id": "another boot"}])
def test_a_stranger_with_a_recycled_process_number_is_left_alone(tmp_path, sleeper, changed):
    path = tmp_path / "processes.json"
    leftovers.write(path, [{**leftovers.record("web", sleeper.pid), **changed}])

    assert leftovers.stop(path) == []
    assert sleeper.poll() is None


def test_secrets_are_made_once_and_read_by_nobody_else(tmp_path):
    home.keep_identity(tmp_path)
    first = home.read(tmp_path / "secrets.json"), (tmp_path / "instance").read_text()
    home.keep_identity(tmp_path)

    assert (home.read(tmp_path / "secrets.json"), (tmp_path / "instance").read_text()) == first
    assert (tmp_path / "secrets.json").stat().st_mode & 0o077 == 0


def test_a_log_that_grew_large_is_put_aside_while_its_writer_goes_on(tmp_path):
    log = tmp_path / "it.log"
    with log.open("ab") as writer:
        writer.write(b"x" * (LOG_LIMIT_BYTES + 1))
        writer.flush()
        rotate(log)
        writer.write(b"and on")

    assert log.read_bytes() == b"and on"
    assert (tmp_path / "it.log.1").stat().st_size == LOG_LIMIT_BYTES + 1


@pytest.mark.parametrize("left", ["{", "[]", ""])
def test_a_broken_file_of_the_folder_is_named_with_what_to_do(tmp_path, left):
    broken = tmp_path / "secrets.json"
    broken.write_text(left)
    checked = subprocess.run(
        [sys.executable, "manage.py", "check"],
        env={**os.environ, "GANGWAY_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode != 0
    assert f"{broken} is not the JSON object" in checked.stderr.splitlines()[-1]
