"""A run starts at most once, and never after it was refused."""

import json
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nodes.remote import claim, report
from nodes.remote.paths import Root, RunPaths

from .conftest import LocalNode, Serve, eventually, order

ONCE_MORE = "echo started >> $GANGWAY_RUN_DIR/ran"


def test_eight_starts_at_once_run_the_command_once(node: LocalNode):
    node.once("prepare", order=order("7-1-a", ONCE_MORE + "; sleep 0.3"))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: node.once("go", run="7-1-a"), range(8)))

    states = {answer["ok"]["report"]["state"] for answer in answers}
    starts = {answer["ok"]["report"]["started_at_s"] for answer in answers}
    assert states <= {"started", "ended"}
    assert len(starts) == 1
    node.fact("7-1-a", "ended.json")
    assert (node.folder("7-1-a") / "ran").read_text() == "started\n"


def race(starting: Serve, stopping: Serve, runs: list[str], dice: random.Random) -> None:
    """Start and refuse the same runs over two connections, each in its own random order."""
    for run in dice.sample(runs, len(runs)):
        starting.send("go", run=run)
    for run in dice.sample(runs, len(runs)):
        stopping.send("stop", run=run, grace_s=0.2, reason="cancel")
    for serve in (starting, stopping):
        for _ in runs:
            assert "ok" in serve.answers.get(timeout=20)


def claimed(paths: RunPaths) -> str:
    return json.loads(paths.claim.read_text())["claim"]


def test_in_a_thousand_races_of_stop_and_start_exactly_one_wins(node: LocalNode):
    dice = random.Random(20)  # noqa: S311 - an order of play, not a secret
    runs = [Root(node.root).run(f"7-{number}-r") for number in range(1000)]
    starting, stopping = node.serve(), node.serve()
    for paths in runs:
        prepared = order(paths.run, ": > $GANGWAY_RUN_DIR/ran", grace_s=0.2)
        starting.ok("prepare", order=prepared)

    for first in range(0, len(runs), 20):
        race(starting, stopping, [paths.run for paths in runs[first : first + 20]], dice)

    refused = [paths for paths in runs if claimed(paths) == "refused"]
    begun = [paths for paths in runs if claimed(paths) == "start"]
    assert len(refused) > 50, "the race must be open for this test to mean anything"
    assert len(begun) > 50, "the race must be open for this test to mean anything"
    for paths in begun:
        eventually(paths.ended.exists)
        assert paths.started.exists()
    for paths in refused:
        assert not paths.started.exists()
        assert not (paths.folder / "ran").exists()


def test_a_stop_of_an_unknown_run_is_a_tombstone_for_a_later_start(node: LocalNode, serve: Serve):
    refused = serve.ok("stop", run="7-1-a", grace_s=1, reason="withdraw")["report"]

    assert (refused["state"], refused["seq"]) == ("refused", 2)
    prepared = serve.ok("prepare", order=order("7-1-a", ONCE_MORE))
    assert prepared["report"] == refused
    assert serve.ok("go", run="7-1-a")["report"] == refused
    assert not (node.folder("7-1-a") / "ran").exists()


def test_a_start_that_was_not_prepared_says_what_to_do(serve: Serve):
    error = serve.ask("go", run="7-1-a")["error"]

    assert (error["code"], error["class"]) == ("not_prepared", "request")
    assert "prepare" in error["next_step"]


def test_an_order_of_an_earlier_boot_starts_nothing(node: LocalNode, serve: Serve):
    serve.ok("prepare", order=order("7-1-a", ONCE_MORE))
    kept = node.folder("7-1-a") / "order.json"
    kept.write_text(kept.read_text().replace(serve.hello["boot_id"], "an-earlier-boot"))

    assert serve.ask("go", run="7-1-a")["error"]["code"] == "not_prepared"


def test_a_crash_between_claim_and_start_is_an_end_unknown_and_never_a_second_start(
    node: LocalNode, serve: Serve
):
    serve.ok("prepare", order=order("7-1-a", ONCE_MORE))
    claimed = {"claim": "start", "boot_id": serve.hello["boot_id"], "pid": dead_pid(), "start": 1}
    (node.folder("7-1-a") / "claim.json").write_text(json.dumps(claimed))

    found = serve.ok("go", run="7-1-a")["report"]

    assert (found["state"], found["end"], found["exit"]) == ("unsupervised", "unsupervised", None)
    assert not (node.folder("7-1-a") / "ran").exists()


def test_a_claim_of_an_earlier_boot_is_an_end_unknown(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "sleep 60")
    kept = node.folder("7-1-a") / "claim.json"
    paths = Root(node.root).run("7-1-a")
    os.kill(json.loads(kept.read_text())["pid"], signal.SIGSTOP)

    found = report.of(paths, "a-later-boot")

    assert (found["state"], found["seq"], found["exit"]) == ("unsupervised", 5, None)
    assert found["boot_id"] == serve.hello["boot_id"]


def test_a_second_prepare_writes_nothing_new_once_the_run_is_claimed(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "true")
    node.fact("7-1-a", "ended.json")

    answer = serve.ok("prepare", order=order("7-1-a", "echo other"))

    assert answer["report"]["state"] == "ended"
    assert (node.folder("7-1-a") / "command").read_text() == "true"


def test_the_tombstone_is_laid_once(tmp_path: Path):
    paths = Root(tmp_path).run("7-1-a")

    assert claim.refuse(paths, "boot", "cancel")
    assert not claim.refuse(paths, "boot", "preempt")
    assert report.of(paths, "boot")["stop_reason"] == "cancel"


def dead_pid() -> int:
    """A pid that certainly is nobody's: its process was waited for just now."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child
