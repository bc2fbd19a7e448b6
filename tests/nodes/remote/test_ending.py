"""How runs end: by themselves, asked, at their limit; whole trees, politely first."""

import json
import signal
import time
from pathlib import Path

from nodes.remote import stopping, tree

from .conftest import LocalNode, Serve, eventually, order

DEAF = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
WAITING = "echo up; while :; do sleep 0.02; done"
POLITE = f"trap 'echo asked; sleep 0.3; echo saved; exit 0' TERM; {WAITING}"
EMPTY_ENVIRONMENT = """\
exec python3 - <<'END'
import os, time
folder = os.environ["GANGWAY_RUN_DIR"]
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve("/bin/sh", ["/bin/sh", "-c",
        "trap '' TERM; echo $$ > %s/escaped; while :; do sleep 0.1; done" % folder], {})
while not os.path.exists(folder + "/escaped"):
    time.sleep(0.01)
time.sleep(float(open(folder + "/work/stay_s").read()))
END
"""


def started(node: LocalNode, serve: Serve, run: str, command: str, word: str, **fields) -> None:
    node.run(serve, run, command, **fields)
    eventually(lambda: word.encode() in node.log(run))


def test_exit_codes_and_signals_are_kept_apart(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "exit 137")
    node.run(serve, "7-2-b", "kill -9 $$")

    by_code, by_signal = serve.event("7-1-a", 5), serve.event("7-2-b", 5)

    assert (by_code["exit"], by_code["signal"]) == (137, None)
    assert (by_signal["exit"], by_signal["signal"]) == (None, 9)
    assert by_code["end"] == by_signal["end"] == "exited"
    assert by_code["failed_rank"] == 0


def test_an_end_is_told_within_100_ms(node: LocalNode, serve: Serve):
    late_s = []
    for number in range(10):
        run = f"7-{number}-a"
        node.run(serve, run, "sleep 0.1")
        ended = serve.event(run, 5)
        at = next(i for i, e in enumerate(serve.events) if (e["run"], e["seq"]) == (run, 5))
        late_s.append(serve.event_times[at] - ended["ended_at_s"])

    # the middle of ten: one late one is the machine's, not the promise's
    assert sorted(late_s)[5] < 0.1


def test_term_precedes_kill_by_the_whole_grace_period(node: LocalNode, serve: Serve):
    started(node, serve, "7-1-a", DEAF, "deaf")

    asked_s = time.monotonic()
    serve.ok("stop", run="7-1-a", grace_s=0.8, reason="cancel")
    ended = serve.event("7-1-a", 5)

    assert 0.8 <= time.monotonic() - asked_s < 2.5
    assert (ended["end"], ended["stop_reason"], ended["signal"]) == ("stopped", "cancel", 9)
    assert not ended["exit_before_term"]


def test_who_leaves_at_term_is_not_waited_for(node: LocalNode, serve: Serve):
    started(node, serve, "7-1-a", POLITE, "up")

    asked_s = time.monotonic()
    serve.ok("stop", run="7-1-a", grace_s=60, reason="preempt")
    ended = serve.event("7-1-a", 5)

    assert time.monotonic() - asked_s < 5
    assert (ended["end"], ended["stop_reason"], ended["exit"]) == ("stopped", "preempt", 0)
    assert b"asked\nsaved\ngangway: preempted at " in node.log("7-1-a")


def test_a_group_is_signalled_as_long_as_any_of_it_lives(outsider):
    """A member seen a moment ago that has left since must not spare the others."""
    leader = outsider(["sleep", "60"])
    there = tree.read(leader.pid)
    left = there._replace(pid=leader.pid + 1, start=there.start - 1)

    assert stopping.send([left, there, left], signal.SIGTERM, set())
    assert leader.wait(5) == -signal.SIGTERM
    assert not stopping.send([left], signal.SIGTERM, set())


def test_a_later_stop_only_shortens_the_deadline_and_strengthens_the_reason(
    node: LocalNode, serve: Serve
):
    started(node, serve, "7-1-a", DEAF, "deaf")

    serve.ok("stop", run="7-1-a", grace_s=600, reason="preempt")
    eventually((node.folder("7-1-a") / "stopping.json").exists)
    serve.ok("stop", run="7-1-a", grace_s=6000, reason="withdraw")
    assert json.loads((node.folder("7-1-a") / "stop.json").read_text())["grace_s"] == 600
    serve.ok("stop", run="7-1-a", grace_s=0.2, reason="cancel")
    ended = serve.event("7-1-a", 5)

    assert (ended["end"], ended["stop_reason"]) == ("stopped", "cancel")
    assert ended["ran_s"] < 10


def test_the_time_limit_is_the_keepers_own(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", DEAF, time_limit_s=0.5, grace_s=0.3)
    serve.kill()

    ended = node.fact("7-1-a", "ended.json")

    assert ended["end"] == "time_limit"
    assert 0.8 <= ended["ran_s"] < 2.5


def test_a_time_limit_can_be_moved_while_the_run_lives(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "sleep 60", time_limit_s=60)

    assert serve.ok("extend", run="7-1-a", limit_s=0.2)["report"]["state"] == "started"

    assert serve.event("7-1-a", 5)["end"] == "time_limit"
    assert serve.ask("extend", run="7-1-a", limit_s=9)["error"]["code"] == "not_running"


def test_an_exit_before_term_is_the_jobs_own_even_if_a_stop_follows(node: LocalNode, serve: Serve):
    """The leader fails and leaves a child that ignores TERM; the stop comes in between."""
    node.run(serve, "7-1-a", f"({DEAF}) & sleep 0.3; exit 4", grace_s=600)
    eventually((node.folder("7-1-a") / "stopping.json").exists)

    serve.ok("stop", run="7-1-a", grace_s=0.1, reason="cancel")
    ended = serve.event("7-1-a", 5)

    assert (ended["end"], ended["exit"], ended["exit_before_term"]) == ("exited", 4, True)


def test_what_the_leader_leaves_behind_is_asked_then_killed(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", f"({DEAF}) & sleep 0.2", grace_s=0.4)

    ended = serve.event("7-1-a", 5)

    assert (ended["end"], ended["exit"]) == ("exited", 0)
    assert ended["ran_s"] >= 0.6


def test_a_child_without_session_parent_or_environment_dies_with_the_run(
    node: LocalNode, serve: Serve
):
    serve.ok("prepare", order=escaping(60))
    (node.folder("7-1-a") / "work/stay_s").write_text("60")
    serve.ok("go", run="7-1-a")
    escaped = escaped_pid(node)

    serve.ok("stop", run="7-1-a", grace_s=0.3, reason="cancel")
    serve.event("7-1-a", 5)

    assert not Path(f"/proc/{escaped}").exists()


def test_the_end_is_written_only_when_nothing_of_the_run_is_alive(node: LocalNode, serve: Serve):
    serve.ok("prepare", order=escaping(0.5))
    (node.folder("7-1-a") / "work/stay_s").write_text("0")
    serve.ok("go", run="7-1-a")
    escaped = escaped_pid(node)

    ended = node.folder("7-1-a") / "ended.json"
    while Path(f"/proc/{escaped}").exists():
        was_there = ended.exists()
        assert not was_there or not Path(f"/proc/{escaped}").exists()
    eventually(ended.exists)
    assert json.loads(ended.read_text())["ran_s"] >= 0.5


def test_a_process_elsewhere_that_carries_the_marker_ends_with_the_run(
    node: LocalNode, serve: Serve, outsider
):
    node.run(serve, "7-1-a", "sleep 60")
    here, elsewhere = str(node.folder("7-1-a")), "/srv/other-node/runs/7-1-a"
    stray = outsider(["sleep", "60"], GANGWAY_RUN_DIR=here)
    longer = outsider(["sleep", "60"], GANGWAY_RUN_DIR=here + "b")
    other_part = outsider(["sleep", "60"], GANGWAY_RUN_DIR=elsewhere, GANGWAY_RUN_ID="7-1-a")

    serve.ok("stop", run="7-1-a", grace_s=0.2, reason="cancel")
    serve.event("7-1-a", 5)

    assert stray.wait(5) == -15
    assert (longer.poll(), other_part.poll()) == (None, None)


def test_a_run_has_not_ended_while_something_elsewhere_carries_its_marker(
    node: LocalNode, serve: Serve, outsider
):
    serve.ok("prepare", order=order("7-1-a", "true", grace_s=0.5))
    deaf = outsider(["sh", "-c", DEAF], GANGWAY_RUN_DIR=str(node.folder("7-1-a")))
    serve.ok("go", run="7-1-a")

    ended = serve.event("7-1-a", 5)

    assert (ended["exit"], ended["end"]) == (0, "exited")
    assert deaf.wait(5) == -signal.SIGKILL
    assert ended["ran_s"] >= 0.5


def test_a_signal_of_ones_own_is_sent_instead_of_term(node: LocalNode, serve: Serve):
    started(node, serve, "7-1-a", f"trap 'echo saving; exit 5' USR1; {WAITING}", "up")

    serve.ok("stop", run="7-1-a", grace_s=10, reason="preempt", signal="USR1")

    assert serve.event("7-1-a", 5)["exit"] == 5
    assert b"saving\n" in node.log("7-1-a")


def test_one_failed_rank_ends_the_others_and_is_the_outcome(node: LocalNode, serve: Serve):
    node.run(
        serve,
        "7-1-a",
        'if [ "$RANK" = 5 ]; then sleep 0.2; exit 9; fi; exec sleep 60',
        launch="per_gpu",
        cards=node.uuids[:3],
        ranks=3,
        first_rank=4,
        world_size=8,
    )

    ended = serve.event("7-1-a", 5)

    assert (ended["failed_rank"], ended["exit"], ended["end"]) == (5, 9, "exited")
    assert [(r["rank"], r["exit"], r["signal"]) for r in ended["ranks"]] == [
        (4, None, 15),
        (5, 9, None),
        (6, None, 15),
    ]


def test_memory_that_ran_out_is_said_with_evidence_only(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried'; exit 1")
    node.run(serve, "7-2-b", "echo 'the log says nothing'; exit 1")
    node.run(serve, "7-3-c", "echo 'CUDA out of memory, but it was caught'; exit 0")

    assert [serve.event(run, 5)["oom"] for run in ("7-1-a", "7-2-b", "7-3-c")] == [
        True,
        False,
        False,
    ]


def escaping(grace_s: float) -> dict:
    return order("7-1-a", EMPTY_ENVIRONMENT, grace_s=grace_s)


def escaped_pid(node: LocalNode) -> int:
    told = node.folder("7-1-a") / "escaped"
    return int(eventually(lambda: told.exists() and told.read_text().strip()))
