"""serve and once are one thing: the same story gets the same answers."""

import base64
import re
import socket
from pathlib import Path
from typing import Any

from .conftest import INSTANCE, LocalNode, eventually, order

MOVING = re.compile(r".*_s$|elapsed_ms|loadavg|disk_free_gib|seconds")


def story(ask: Any, node: LocalNode, port: int) -> list[Any]:
    """Every verb, good and bad, on two cards; waits for ends by looking."""
    cards = node.uuids[:2]
    told = [ask("hello"), ask("probe"), ask("look"), ask("go", run="7-1-a"), ask("jump")]
    told.append(ask("prepare", order=order("7-1-a", "echo hi; exit 3", cards=cards, ranks=2)))
    told.append(ask("look"))
    ask("go", run="7-1-a")
    ended = lambda: ask("look", runs=["7-1-a"])["ok"]["reports"][0]["seq"] == 5  # noqa: E731
    eventually(ended)
    told += [ask("go", run="7-1-a"), ask("stop", run="7-1-a", grace_s=1, reason="cancel")]
    told += [ask("stop", run="7-2-b", grace_s=1, reason="cancel"), ask("go", run="7-2-b")]
    told += [ask("tail", run="7-1-a"), ask("tail", run="7-1-a", offset=-2)]
    told += [ask("tail", run="nobody"), ask("look", runs=["7-2-b", "nobody"])]
    told += [ask("extend", run="7-1-a", limit_s=5), ask("extend", run="7-1-a")]
    told += [ask("clean", run="7-1-a", settle=True), ask("look")]
    told += [ask("reach", host="127.0.0.1", port=port, timeout_s=2), ask("reach", host="x")]
    told.append(ask("prepare", order={**order("7-3-c"), "ranks": "two"}))
    return told


def still(answer: Any, node: LocalNode) -> Any:
    """The answer without what no two nodes or moments share."""
    if isinstance(answer, dict):
        return {
            key: None if MOVING.match(key) else still(value, node) for key, value in answer.items()
        }
    if isinstance(answer, list):
        return [still(value, node) for value in answer]
    return answer.replace(str(node.root), "ROOT") if isinstance(answer, str) else answer


def test_serve_and_once_give_the_same_answers_for_a_story_of_all_verbs(tmp_path: Path):
    kept, single = LocalNode(tmp_path / "kept"), LocalNode(tmp_path / "single")
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            by_serve = [still(a, kept) for a in story(kept.serve().ask, kept, port)]
            by_once = [still(a, single) for a in story(single.once, single, port)]
    finally:
        kept.close()
        single.close()

    assert by_serve == by_once
    assert by_serve[7]["ok"]["report"]["exit"] == 3
    assert base64.b64decode(by_serve[11]["ok"]["data"]) == b"hi\n"


def test_serve_says_hello_before_it_is_asked(node: LocalNode):
    hello = node.serve().hello

    assert hello["event"] == "hello"
    assert (hello["v"], hello["cargo"]) == (1, node.cargo.hash)
    assert hello["pid"] > 0


def test_another_portals_node_answers_every_verb_with_its_owner(node: LocalNode):
    node.once("hello")
    stranger = "--instance=99999999-0000-4000-8000-000000000002"

    for verb in ("hello", "probe", "look", "go"):
        error = node.once(verb, stranger, run="7-1-a")["error"]
        assert (error["code"], error["class"]) == ("owned_by_other", "foreign")
        assert INSTANCE in error["cause"]
    assert "ok" in node.once("hello", stranger, "--take-over")
    assert node.once("hello")["error"]["code"] == "owned_by_other"
