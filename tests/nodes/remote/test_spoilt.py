"""A job may write into its own run folder; what it spoils there is its own and nobody else's."""

import json
import os

import pytest

from nodes.remote import tree

from .conftest import LocalNode, Serve, eventually

WAITS = "while [ ! -e ../leave ]; do sleep 0.02; done; exit 6"
NONSENSE = (
    "{}",
    "[]",
    '{"claim": 1, "end": 2, "processes": [1], "cards": 7, "ranks": "x", "limit_s": NaN}',
    '{"claim": "start", "boot_id": "\\ud800", "end": "a\\u0000b", "log": "../../x"}',
    "[" * 100_000,
)
FACTS = ["order", "claim", "started", "stop", "limit", "stopping", "seen", "gap", "gate", "ended"]


@pytest.mark.parametrize("name", FACTS)
def test_a_spoilt_fact_of_one_run_neither_silences_the_node_nor_breaks_its_run(
    node: LocalNode, serve: Serve, name: str
):
    node.run(serve, "7-1-a", WAITS)
    node.run(serve, "8-1-a", WAITS)
    for text in NONSENSE:
        (node.folder("7-1-a") / f"{name}.json").write_text(text)
        states = {found["run"]: found["state"] for found in serve.ok("look")["reports"]}
        assert states["8-1-a"] == "started"
        serve.ok("clean", run="7-1-a", settle=False)

    for run in ("7-1-a", "8-1-a"):
        (node.folder(run) / "leave").touch()
        assert serve.event(run, 5)["exit"] == 6


def test_the_cards_of_a_run_that_spoilt_its_order_are_still_looked_at(
    node: LocalNode, serve: Serve
):
    card = node.uuids[0]
    node.run(serve, "7-1-a", "echo '{}' > ../order.json; exit 0", cards=[card], ranks=1)
    serve.event("7-1-a", 5)

    assert serve.ok("clean", run="7-1-a", settle=False)["cards"][card]["clean"] is True


def test_a_run_whose_folder_was_removed_is_still_told_and_can_be_stopped(
    node: LocalNode, serve: Serve
):
    node.run(serve, "7-1-a", 'rm -rf "$GANGWAY_RUN_DIR"; exec sleep 60')
    eventually(lambda: not (node.folder("7-1-a") / "command").exists())

    found = serve.ok("stop", run="7-1-a", grace_s=5, reason="cancel", signal="TERM")["report"]

    assert found["state"] in ("started", "unsupervised")
    ended = serve.event("7-1-a", 5)
    assert (ended["stop_reason"], ended["signal"]) == ("cancel", 15)


def test_a_run_without_folder_and_keeper_is_not_refused_but_stopped(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "echo $$ > ../../leader; exec sleep 60")
    leader = int(eventually(lambda: node.log("", "leader")))
    start = tree.start_of(leader)
    os.kill(node.fact("7-1-a", "claim.json")["pid"], 9)
    for path in sorted(node.folder("7-1-a").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    node.folder("7-1-a").rmdir()

    found = serve.ok("stop", run="7-1-a", grace_s=1, reason="cancel", signal="TERM")["report"]

    assert (found["state"], found["alive"]) == ("unsupervised", 1)
    eventually(lambda: not tree.is_alive(leader, start))


def test_a_log_that_became_a_link_or_a_pipe_is_read_as_none(node: LocalNode, serve: Serve):
    for run, change in (
        ("7-1-a", "ln -s /dev/zero"),
        ("7-2-a", "mkfifo"),
        ("7-3-a", "ln -s /etc/passwd"),
    ):
        log = '"$GANGWAY_RUN_DIR"/out.log'
        node.run(serve, run, f"rm {log}; {change} {log}; exit 3")

        ended = serve.event(run, 5)

        assert (ended["exit"], ended["head"]) == (3, None)
        assert serve.ok("tail", run=run, rank=0, offset=0, limit=100)["data"] == ""
        assert json.dumps(ended)
