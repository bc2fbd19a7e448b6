"""What a job tells of its checkpoints, who gets the signal, what the last line of a log says."""

import json
import time

import pytest

from nodes.remote.paths import RunPaths
from nodes.remote.progress import MOST_BYTES, Progress, tell

from .conftest import LocalNode, Serve, eventually

WAITING = "while :; do sleep 0.02; done"
SAVES = """\
trap 'gangway-job checkpoint begin --step 20; echo x > b; sleep 0.2
gangway-job checkpoint done --step 20 --path b; exit 0' TERM
echo data > a; gangway-job checkpoint begin --step 10
gangway-job checkpoint done --step 10 --path a || exit 80
gangway-job checkpoint done --step 11 --path nothing && exit 81
: > empty; gangway-job checkpoint done --step 12 --path empty && exit 82
gangway-job progress --step 10 --seconds 1.5 --comm-seconds 0.5 || exit 83
gangway-job checkpoint done --step 13; test $? = 2 || exit 84
gangway-job checkpoint begin --step -1; test $? = 2 || exit 85
echo up; while :; do sleep 0.02; done
"""


def started(node: LocalNode, serve: Serve, command: str, word: str = "up", **fields) -> None:
    node.run(serve, "7-1-a", command, **fields)
    eventually(lambda: word.encode() in node.log("7-1-a"))


def steps(report: dict) -> list[int]:
    return [one["step"] for one in report["progress"]["checkpoints"]]


def test_a_checkpoint_counts_once_its_path_was_seen_with_something_in_it(
    node: LocalNode, serve: Serve
):
    started(node, serve, SAVES)
    eventually(lambda: [e for e in serve.events if e["progress"] and steps(e) == [10]])
    told = eventually(lambda: serve.ok("look", runs=[])["reports"][0]["progress"]["ranks"])
    assert told["0"]["seconds"] == 1.5
    assert told["0"]["comm_s"] == 0.5

    serve.ok("stop", run="7-1-a", grace_s=30, reason="preempt", note="preempted by job 42 (x)")
    ended = serve.event("7-1-a", 5)

    assert (ended["exit"], steps(ended)) == (0, [10, 20])
    last = ended["progress"]["checkpoints"][-1]
    assert last["path"] == str(node.folder("7-1-a") / "work" / "b")
    assert last["bytes"] == 2
    assert 0.2 <= last["done_s"] - last["begun_s"] < 5
    assert ended["asked_s"] <= last["begun_s"]
    words = node.log("7-1-a").decode().splitlines()[-1]
    assert words.startswith("gangway: preempted by job 42 (x) at 20")
    assert "; window 30 s; checkpoint step 20 saved after " in words


def test_a_checkpoint_cut_by_the_kill_does_not_count_and_the_log_says_so(
    node: LocalNode, serve: Serve
):
    command = f"""\
trap 'gangway-job checkpoint begin --step 20; echo half > b; echo saving' TERM
echo data > a; gangway-job checkpoint done --step 10 --path a; echo up; {WAITING}
"""
    started(node, serve, command, cards=node.uuids[:2], ranks=2, world_size=2)

    serve.ok("stop", run="7-1-a", grace_s=1, reason="reclaim")
    ended = serve.event("7-1-a", 5)

    assert (ended["signal"], steps(ended)) == (9, [10])
    assert [one["step"] for one in ended["progress"]["open"]] == [20]
    words = node.log("7-1-a").decode().splitlines()[-1]
    assert words.startswith("gangway: reclaimed at ")
    assert "checkpoint step 10 of " in words
    assert "a later one was cut off" in words
    assert words.endswith(" GPU-seconds lost")


def test_a_checkpoint_whose_path_is_written_over_counts_no_longer(tmp_path):
    paths = RunPaths(tmp_path, "7-1-a")
    paths.folder.mkdir(parents=True)
    progress = Progress(paths, time.monotonic())
    done = {"what": "done", "rank": 0, "bytes": 5, "path": "/ck"}
    tell(paths.progress, {**done, "step": 1})
    tell(paths.progress, {"what": "begin", "rank": 0, "step": 2, "path": "/ck"})

    progress.look()
    assert progress.complete() == []
    tell(paths.progress, {**done, "step": 2})
    progress.look()
    assert [one["step"] for one in progress.complete()] == [2]


def test_a_step_that_several_ranks_save_counts_when_all_are_through(tmp_path):
    paths = RunPaths(tmp_path, "7-1-a")
    paths.folder.mkdir(parents=True)
    progress = Progress(paths, time.monotonic())
    for rank in (1, 0):
        tell(paths.progress, {"what": "begin", "rank": rank, "step": 5})
    done = {"what": "done", "step": 5, "bytes": 5}
    tell(paths.progress, {**done, "rank": 1, "path": "/ck/1"})
    progress.look()
    assert progress.complete() == []

    tell(paths.progress, {**done, "rank": 0, "path": "/ck/0"})
    progress.look()

    (one,) = progress.complete()
    assert (one["path"], one["bytes"]) == ("/ck/0", 10)


def test_progress_is_bounded_and_a_shortened_file_is_not_told_twice(tmp_path):
    paths = RunPaths(tmp_path, "7-1-a")
    paths.folder.mkdir(parents=True)
    progress = Progress(paths, time.monotonic())
    line = {"what": "progress", "rank": 0, "seconds": 1.0, "comm_s": None, "pad": "x" * 4000}
    for step in range(200):
        tell(paths.progress, {**line, "step": step})
        progress.look()

    assert paths.progress.stat().st_size <= MOST_BYTES + 5000
    assert (progress.count, progress.told()["step"]) == (200, 199)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'{"what": "done", "step": 1, "rank": 0, "at_s": 1e400, "path": "/a", "bytes": 1}',
        b'{"what": "done", "step": "1", "rank": 0, "at_s": 1, "path": "/a", "bytes": 1}',
        b'{"what": "done", "step": 1, "rank": 0, "at_s": 1, "path": "a", "bytes": 1}',
        b'{"what": "done", "step": 1, "rank": 0, "at_s": 1, "path": "/a", "bytes": 0}',
        b'{"what": "fly", "step": 1, "rank": 0, "at_s": 1}',
        b"\xff\xfe",
    ],
)
def test_rubbish_in_the_file_is_no_news(tmp_path, line):
    paths = RunPaths(tmp_path, "7-1-a")
    paths.folder.mkdir(parents=True)
    paths.progress.write_bytes(line + b"\n")
    progress = Progress(paths, 0.0)

    progress.look()

    assert progress.count == 0


def test_a_signal_for_rank_0_reaches_the_others_once_it_has_left(node: LocalNode, serve: Serve):
    command = f"""\
if [ "$RANK" = 0 ]; then trap 'sleep 0.4; echo saved; exit 0' TERM
else trap 'echo asked; exit 0' TERM; fi
echo up; {WAITING}
"""
    node.run(serve, "7-1-a", command, launch="per_gpu", cards=node.uuids[:2], ranks=2, world_size=2)
    for rank in (0, 1):
        name = f"out.{rank}.log"
        eventually(lambda name=name: b"up" in node.log("7-1-a", name))

    serve.ok("stop", run="7-1-a", grace_s=30, reason="preempt", to="rank0")
    eventually(lambda: json.loads((node.folder("7-1-a") / "stop.json").read_text())["to"])
    ended = serve.event("7-1-a", 5)

    assert (ended["exit"], ended["ran_s"] < 20) == (0, True)
    assert b"saved" in node.log("7-1-a", "out.0.log")
    assert b"asked" in node.log("7-1-a", "out.1.log")


def test_a_part_without_rank_0_is_signalled_only_when_told_to(node: LocalNode, serve: Serve):
    command = f"trap 'echo asked; exit 0' TERM; echo up; {WAITING}"
    started(node, serve, command, first_rank=8, nnodes=2, node_rank=1)

    serve.ok("stop", run="7-1-a", grace_s=60, reason="preempt", to="rank0")
    eventually((node.folder("7-1-a") / "stopping.json").exists)
    assert b"asked" not in node.log("7-1-a")
    serve.ok("stop", run="7-1-a", grace_s=60, reason="preempt", to="group")

    assert serve.event("7-1-a", 5)["exit"] == 0


def test_what_went_before_is_in_the_environment(node: LocalNode, serve: Serve):
    node.run(
        serve,
        "7-1-a",
        'echo "$GANGWAY_RESTART_COUNT $GANGWAY_CHECKPOINT_STEP $GANGWAY_CHECKPOINT_PATH"',
        restarts=2,
        checkpoint={"step": 1200, "path": "/data/it's here"},
    )
    serve.event("7-1-a", 5)

    assert node.log("7-1-a") == b"2 1200 /data/it's here\n"
