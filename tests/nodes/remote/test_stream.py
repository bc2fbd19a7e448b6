"""The stream itself: half lines, bad lines, many lines."""

import json
import subprocess

from .conftest import LocalNode, Serve, eventually, order


def cut(node: LocalNode, data: bytes) -> None:
    """A connection that sends this much and breaks."""
    subprocess.run(
        node.words("serve"), input=data, capture_output=True, env=node.environment, check=True
    )


def test_a_prepare_cut_anywhere_leaves_nothing_half_done(node: LocalNode, serve: Serve):
    line = json.dumps({"v": 1, "id": 1, "verb": "prepare", "order": order("7-1-a")}).encode()
    where = [1, 9, len(line) // 3, len(line) // 2, len(line) - 1, len(line)]
    for place in where:
        cut(node, line[:place])
        assert not node.folder("7-1-a").exists()
    serve.ok("prepare", order=order("7-1-a"))


def test_a_go_cut_at_every_byte_starts_nothing_and_the_repeated_one_starts_once(
    node: LocalNode, serve: Serve
):
    """Each cut is a serve whose input ends there; at the last place the line is whole."""
    serve.ok("prepare", order=order("7-1-a", "echo started >> $GANGWAY_RUN_DIR/ran"))
    line = json.dumps({"v": 1, "id": 1, "verb": "go", "run": "7-1-a"}).encode() + b"\n"

    for place in range(len(line)):
        cut(node, line[:place])
        assert not (node.folder("7-1-a") / "claim.json").exists()
    for _ in range(3):
        cut(node, line)

    node.fact("7-1-a", "ended.json")
    assert node.log("7-1-a", "ran") == b"started\n"


def test_answers_that_nobody_reads_do_not_undo_the_start(node: LocalNode, serve: Serve):
    serve.ok("prepare", order=order("7-1-a", "sleep 0.3; echo through"))
    deaf = subprocess.Popen(
        node.words("serve"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=node.environment,
    )
    deaf.stdout.readline()
    deaf.stdout.close()
    deaf.communicate(b'{"v":1,"id":1,"verb":"go","run":"7-1-a"}\n', timeout=20)

    assert node.fact("7-1-a", "ended.json")["exit"] == 0
    assert node.log("7-1-a") == b"through\n"


def test_bad_lines_are_answered_and_the_connection_goes_on(serve: Serve):
    lines = [b"nonsense", b"[1]", b"\xff\xfe", b'{"v":2,"id":1,"verb":"look"}', b"", b'{"id":1}']
    lines += [b'{"v":1,"id":1,"verb":{}}', b"[" * 100_000, b'{"v":1,"id":1,"verb":"tail","run":7}']
    for line in lines:
        serve.write(line + b"\n")
        error = serve.answers.get(timeout=20)["error"]
        assert error["class"] == "request"
        assert error["cause"].endswith(".")
        assert error["next_step"].endswith(".")

    assert serve.ok("hello")


def test_a_line_of_more_than_two_mib_is_refused_once_and_the_next_is_heard(serve: Serve):
    serve.write(b'{"v":1,"id":1,"verb":"look","runs":["' + b"x" * (5 * 1024 * 1024) + b'"]}\n')

    assert serve.answers.get(timeout=20)["error"]["code"] == "too_long"
    assert serve.ok("hello")


def test_a_wrong_argument_is_named(serve: Serve):
    for wrong in (
        {"verb": "stop", "run": "7-1-a", "grace_s": -1, "reason": "cancel"},
        {"verb": "stop", "run": "7-1-a", "grace_s": "x", "reason": "cancel"},
        {"verb": "stop", "run": "7-1-a", "grace_s": 1, "reason": "cancel", "signal": "STOP"},
        {"verb": "go", "run": "../../etc"},
        {"verb": "go", "run": "a\u0000b"},
        {"verb": "look", "runs": "7-1-a"},
        {"verb": "clean", "run": "7-1-a", "settle": 1},
        {"verb": "reach", "host": "127.0.0.1", "port": 99999},
        {"verb": "prepare", "order": {**order("7-1-a"), "env": {"A=B": "c"}}},
        {"verb": "prepare", "order": {**order("7-1-a"), "env": {"A": "\ud800"}}},
        {"verb": "prepare", "order": {**order("7-1-a"), "launch": "per_rack"}},
        {"verb": "prepare", "order": {**order("7-1-a"), "command": "  "}},
    ):
        error = serve.ask(**wrong)["error"]
        assert (error["code"], error["class"]) == ("bad_argument", "request"), error
    missing = order("7-1-a")
    del missing["grace_s"]
    error = serve.ask("prepare", order=missing)["error"]
    assert error["cause"] == "Argument 'grace_s' must be seconds from 0, not missing."


def test_requests_are_answered_while_a_slow_one_is_under_way(node: LocalNode, serve: Serve):
    serve.ok("probe")
    node.set_cards({**node.state, "hang_s": 0.01})
    slow, quick = serve.send("probe"), serve.send("hello")

    assert [serve.answers.get(timeout=20)["id"] for _ in "12"] == [quick, slow]


def test_serve_ends_with_its_input(serve: Serve):
    assert serve.close() == 0


def test_a_hundred_requests_in_one_write_get_a_hundred_answers(serve: Serve):
    lines = [json.dumps({"v": 1, "id": n, "verb": "hello"}) for n in range(100)]
    serve.write("\n".join(lines).encode() + b"\n")

    eventually(lambda: serve.answers.qsize() == 100)
    assert {serve.answers.get()["id"] for _ in range(100)} == set(range(100))
