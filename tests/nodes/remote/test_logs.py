"""Logs are bytes with offsets, while they grow and after, whole or with a hole."""

import base64
import json
import os
from pathlib import Path

from nodes.remote.cap import LogCap
from nodes.remote.launch import Rank
from nodes.remote.paths import Root

from .conftest import LocalNode, Serve, eventually

MIB = 1024 * 1024


def tail(serve: Serve, run: str, **args) -> tuple[bytes, int, int]:
    answer = serve.ok("tail", run=run, **args)
    return base64.b64decode(answer["data"]), answer["offset"], answer["size"]


def test_a_log_is_read_while_it_grows_and_offsets_stay(node: LocalNode, serve: Serve):
    node.run(
        serve, "7-1-a", "printf first; while [ ! -e more ]; do sleep 0.02; done; printf second"
    )
    eventually(lambda: tail(serve, "7-1-a")[0] == b"first")

    (node.folder("7-1-a") / "work/more").touch()
    serve.event("7-1-a", 5)

    assert tail(serve, "7-1-a", offset=5) == (b"second", 5, 11)
    assert tail(serve, "7-1-a", offset=-6, limit=3) == (b"sec", 5, 11)
    assert tail(serve, "7-1-a", offset=-600) == (b"firstsecond", 0, 11)
    assert tail(serve, "7-1-a", offset=99) == (b"", 99, 11)


def test_binary_logs_come_back_byte_for_byte(node: LocalNode, serve: Serve, tmp_path: Path):
    noise = os.urandom(300_000)
    (tmp_path / "noise").write_bytes(noise)
    node.run(serve, "7-1-a", "cat noise", workdir=str(tmp_path))
    ended = serve.event("7-1-a", 5)

    read, offset = b"", 0
    while offset < ended["log"]["0"]:
        data, _, _ = tail(serve, "7-1-a", offset=offset)
        assert 0 < len(data) <= 65536
        read, offset = read + data, offset + len(data)

    assert read == noise
    assert ended["head"] is None


def test_each_rank_has_its_log(node: LocalNode, serve: Serve):
    cards = node.uuids[:2]
    fields = {"launch": "per_gpu", "cards": cards, "ranks": 2, "first_rank": 2, "world_size": 4}
    node.run(serve, "7-1-a", "printf $RANK$RANK", **fields)
    ended = serve.event("7-1-a", 5)

    assert ended["log"] == {"2": 2, "3": 2}
    assert tail(serve, "7-1-a", rank=3)[0] == b"33"
    error = serve.ask("tail", run="7-1-a", rank=0)["error"]
    assert error["cause"] == "Argument 'rank' must be 2 to 3 here, not 0."


def test_a_log_over_its_limit_loses_its_middle_and_no_offset(node: LocalNode, serve: Serve):
    command = (
        "head -c 6291456 /dev/zero | tr '\\0' x; printf end; while [ ! -e go ]; do sleep 0.02; done"
    )
    node.run(serve, "7-1-a", command, log_max_mib=2)
    gap = node.fact("7-1-a", "gap.json")["gaps"]["0"]

    log = node.folder("7-1-a") / "out.log"
    eventually(lambda: log.stat().st_size == 6 * MIB + 3 and log.stat().st_blocks * 512 <= 2 * MIB)
    (node.folder("7-1-a") / "work/go").touch()

    assert tail(serve, "7-1-a", offset=-3)[0] == b"end"
    assert tail(serve, "7-1-a", limit=4)[0] == b"xxxx"
    assert tail(serve, "7-1-a", offset=gap[0], limit=4)[0] == bytes(4)
    assert serve.ok("tail", run="7-1-a")["gap"][0] == gap[0]


def test_a_log_under_its_limit_is_left_alone(tmp_path: Path):
    paths = Root(tmp_path).run("7-1-a")
    paths.folder.mkdir(parents=True)
    paths.log(0, False).write_bytes(b"x" * MIB)

    cap = LogCap(paths, 2)
    cap.next_s = 0.0
    cap.look([Rank(0, 1, 1, "out.log")])

    assert not paths.gap.exists()
    assert json.dumps(cap.gaps) == "{}"
