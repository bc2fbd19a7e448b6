"""Shared memory after a run: what its processes used goes, what anybody else uses stays."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from nodes.remote import shared, stopping, tree
from nodes.remote.paths import RunPaths
from tests.nodes.machines import until

from .conftest import LocalNode, Serve, eventually

SHM = Path("/dev/shm")
HOLDS = """\
#!/usr/bin/env python3
import mmap, os, time
for name in os.environ["NAMES"].split():
    file = open("/dev/shm/" + name, "a+b")
    file.truncate(4096)
    keep = globals().setdefault("maps", [])
    keep.append(mmap.mmap(file.fileno(), 4096))
    file.close()
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def names() -> Iterator[dict[str, str]]:
    """Names in /dev/shm of this test alone, gone with it."""
    found = {word: f"gw-test-{os.getpid()}-{word}" for word in ("own", "older", "both", "other")}
    yield found
    for name in found.values():
        with contextlib.suppress(OSError):
            (SHM / name).unlink()


def test_only_what_its_own_processes_made_and_nobody_uses_is_removed(
    node: LocalNode, serve: Serve, names, outsider
):
    (SHM / names["older"]).write_bytes(b"was here before")
    own = " ".join(names[word] for word in ("own", "older", "both"))
    node.run(serve, "7-1-a", HOLDS, env={"NAMES": own})
    eventually(lambda: b"up" in node.log("7-1-a"))
    script = f"import mmap, time; f = open('/dev/shm/{names['both']}', 'r+b'); m = mmap.mmap(f.fileno(), 0); open('/dev/shm/{names['other']}', 'w').write('x'); time.sleep(60)"  # noqa: E501
    outsider(["python3", "-c", script])
    eventually((SHM / names["other"]).exists)
    eventually(lambda: names["own"] in seen(node, "7-1-a"))

    serve.ok("stop", run="7-1-a", grace_s=5, reason="cancel")
    serve.event("7-1-a", 5)
    serve.ok("clean", run="7-1-a", settle=True)

    left = {word for word, name in names.items() if (SHM / name).exists()}
    assert left == {"older", "both", "other"}


def seen(node: LocalNode, run: str) -> dict[str, int]:
    fact = node.fact(run, "seen.json")
    return fact["shared"]["files"]


def test_a_job_cannot_name_a_file_for_removal_that_is_not_its_own(
    node: LocalNode, serve: Serve, names
):
    theirs = shared_memory.SharedMemory(names["other"], create=True, size=4096)
    try:
        told = {"files": {names["other"]: shared.inodes()[names["other"]] + 1}, "segments": {}}
        assert shared.left(told, os.geteuid()) == []
        told = {"files": {names["other"]: shared.inodes()[names["other"]]}, "segments": {}}
        assert shared.left(told, os.geteuid() + 1) == []
        shared.remove(told, os.geteuid())
        assert (SHM / names["other"]).exists()  # this process has it mapped
    finally:
        theirs.close()
        theirs.unlink()


def test_system_v_segments_of_the_run_go_and_others_stay(node: LocalNode, serve: Serve, outsider):
    if not Path("/proc/sysvipc/shm").exists():
        return
    make = "import ctypes, time; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600), flush=True); time.sleep(60)"  # noqa: E501
    node.run(serve, "7-1-a", f"exec python3 -c '{make}'")
    eventually(lambda: node.log("7-1-a").strip())
    mine = int(node.log("7-1-a").split()[0])
    process = subprocess.Popen(["python3", "-c", make], stdout=subprocess.PIPE)
    theirs = int(process.stdout.readline())
    try:
        eventually(lambda: str(mine) in node.fact("7-1-a", "seen.json")["shared"]["segments"])
        serve.ok("stop", run="7-1-a", grace_s=5, reason="cancel")
        serve.event("7-1-a", 5)
        serve.ok("clean", run="7-1-a", settle=True)

        there = {segment.number for segment in shared.segments()}
        assert (mine in there, theirs in there) == (False, True)
    finally:
        process.kill()
        process.wait()
        shared.LIBC.shmctl(theirs, shared.IPC_RMID, None)


def test_what_a_kill_does_not_end_is_named_with_what_it_waits_for(tmp_path, monkeypatch, outsider):
    paths = RunPaths(tmp_path, "7-1-a")
    paths.folder.mkdir(parents=True)
    pid = outsider(["sleep", "60"]).pid
    until(lambda: tree.read(pid).state == "S", what="it sleeps")
    there = tree.read(pid)
    monkeypatch.setattr(stopping, "send", lambda *_: True)
    monkeypatch.setattr(stopping, "STUCK_AFTER_S", 0.0)
    stop = stopping.Stopping(paths, lambda: [there])
    stop.begin("cancel", 0.0, "TERM")
    assert stop.stuck == []
    time.sleep(0.001)

    stop.tick()

    (told,) = stop.stuck
    assert (told["pid"], told["name"], told["state"]) == (there.pid, "sleep", "S")
    assert "wchan" in told
