"""What happens to a run when the processes around it are killed."""

import json
import os
import signal
from pathlib import Path

from nodes.remote import tree

from .conftest import LocalNode, Serve, eventually

STRAYS = """\
python3 - <<'END' &
import os, time
folder = os.environ["GANGWAY_RUN_DIR"]
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    script = "trap '' TERM; echo $$ > %s/bare; while :; do sleep 0.1; done" % folder
    os.execve("/bin/sh", ["/bin/sh", "-c", script], {})
time.sleep(60)
END
echo $$ > $GANGWAY_RUN_DIR/leader
exec sleep 60
"""


def keeper_of(node: LocalNode, run: str) -> int:
    return node.fact(run, "claim.json")["pid"]


def test_a_run_outlives_the_connection_and_is_told_ended_by_the_next(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "while [ ! -e leave ]; do sleep 0.02; done; exit 6")
    serve.kill()

    later = node.serve()

    assert later.event("7-1-a", 3)["state"] == "started"
    (node.folder("7-1-a") / "work/leave").touch()
    assert later.event("7-1-a", 5)["exit"] == 6


def test_an_end_that_nobody_heard_is_told_to_the_next_connection(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "sleep 0.2; exit 6")
    serve.kill()
    node.fact("7-1-a", "ended.json")

    later = node.serve()

    assert later.event("7-1-a", 5)["exit"] == 6
    assert [found["run"] for found in later.ok("look")["reports"]] == ["7-1-a"]
    later.ok("clean", run="7-1-a", settle=True)
    assert later.ok("look")["reports"] == []
    assert node.folder("7-1-a").exists()


def test_the_keeper_has_left_the_session_and_the_files_of_its_runner(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "exec sleep 60")
    keeper = keeper_of(node, "7-1-a")

    assert tree.read(keeper).sid == keeper
    assert tree.read(keeper).ppid != serve.process.pid
    for fd in ("0", "1", "2"):
        assert str(Path(f"/proc/{keeper}/fd/{fd}").readlink()) == "/dev/null"


def test_a_killed_keeper_leaves_an_unsupervised_run_with_its_processes_counted(
    node: LocalNode, serve: Serve
):
    node.run(serve, "7-1-a", "exec sleep 60")
    os.kill(keeper_of(node, "7-1-a"), signal.SIGKILL)

    found = serve.event("7-1-a", 4)

    assert (found["state"], found["exit"], found["end"]) == ("unsupervised", None, None)
    assert found["alive"] == 1
    assert serve.ok("go", run="7-1-a")["report"]["state"] == "unsupervised"


def test_a_stop_ends_all_that_a_killed_keeper_left(node: LocalNode, serve: Serve):
    """Its leader, a marked child, and one that left its session with an empty environment."""
    node.run(serve, "7-1-a", STRAYS)
    pids = [
        int(eventually(lambda name=name: node.log("7-1-a", name))) for name in ("leader", "bare")
    ]
    seen = node.folder("7-1-a") / "seen.json"
    eventually(lambda: seen.exists() and str(pids[1]) in json.loads(seen.read_text())["processes"])
    os.kill(keeper_of(node, "7-1-a"), signal.SIGKILL)
    assert serve.event("7-1-a", 4)["alive"] >= 3

    serve.ok("stop", run="7-1-a", grace_s=0.3, reason="cancel")
    ended = serve.event("7-1-a", 5)

    assert (ended["state"], ended["end"]) == ("unsupervised", "unsupervised")
    assert (ended["exit"], ended["signal"], ended["stop_reason"]) == (None, None, "cancel")
    assert all(tree.read(pid) is None or tree.read(pid).state == "Z" for pid in pids)


def test_an_unsupervised_run_that_ends_by_itself_is_seen_to_have_ended(
    node: LocalNode, serve: Serve
):
    node.run(serve, "7-1-a", "while [ ! -e leave ]; do sleep 0.02; done")
    os.kill(keeper_of(node, "7-1-a"), signal.SIGKILL)
    assert serve.event("7-1-a", 4)["alive"] >= 1

    (node.folder("7-1-a") / "work/leave").touch()

    assert serve.event("7-1-a", 5)["exit"] is None


def test_a_pid_that_was_given_to_somebody_else_is_nobody_of_the_run(outsider):
    stranger = outsider(["sleep", "60"]).pid
    then = tree.read(stranger).start

    assert tree.of_run("/srv/node/runs/7-1-a", 0, {stranger: then - 1}) == []
    assert [p.pid for p in tree.of_run("/srv/node/runs/7-1-a", 0, {stranger: then})] == [stranger]
    assert not tree.is_alive(stranger, then - 1)


def test_the_processes_below_one_are_the_same_by_either_way_of_looking(outsider, monkeypatch):
    top = outsider(["sh", "-c", "sh -c 'sleep 60; :' & sleep 60; :"]).pid
    eventually(lambda: len(tree.below(top)) == 3)
    listed = sorted(tree.below(top))

    monkeypatch.setattr(os, "access", lambda path, mode: False)

    assert [p._replace(state="") for p in sorted(tree.below(top))] == [
        p._replace(state="") for p in listed
    ]
    for process in listed:
        os.kill(process.pid, signal.SIGKILL)


def test_a_probe_child_goes_with_its_runner(node: LocalNode, serve: Serve):
    serve.ok("probe")
    children = [p.pid for p in tree.scan().values() if p.ppid == serve.process.pid]
    assert len(children) == 1

    serve.kill()

    eventually(lambda: tree.read(children[0]) is None or tree.read(children[0]).state == "Z")
