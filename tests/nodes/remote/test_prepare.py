"""What is refused before anything is claimed, and whose fault it is."""

import base64
import os
import pwd
import socket
import tempfile
from pathlib import Path

import pytest

from nodes.remote import machine
from nodes.remote.node import Node
from nodes.remote.nvmlchild import Nvml, Source
from nodes.remote.prepare import may_enter
from nodes.remote.protocol import Refusal

from .conftest import LocalNode, Serve, order

MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
40 22 0:41 / /home rw shared:1 - nfs4 server:/home rw
41 22 8:2 / /home/scratch rw - xfs /dev/sdb1 rw
42 22 0:50 / /mnt/with\\040space rw - fuse.sshfs host: rw
"""


def refused(serve: Serve, **fields) -> dict:
    return serve.ask("prepare", order=order("7-1-a", **fields))["error"]


def test_a_working_directory_that_is_not_there_is_the_jobs_fault(serve: Serve, tmp_path: Path):
    (tmp_path / "file").touch()

    for folder in ("/no/such/place", "relative", str(tmp_path / "file")):
        error = refused(serve, workdir=folder)
        assert (error["code"], error["class"]) == ("no_workdir", "job")
        assert repr(folder) in error["cause"]


def test_a_user_that_is_not_there_is_the_jobs_fault(serve: Serve):
    error = refused(serve, account="no-such-user")

    assert (error["code"], error["class"]) == ("no_user", "job")


def test_too_little_disk_is_the_nodes_fault_and_says_how_much_there_is(serve: Serve):
    error = refused(serve, disk_gib=10_000_000)

    assert (error["code"], error["class"]) == ("disk_full", "node")
    assert "10000000 GiB" in error["cause"]


def test_a_taken_port_is_refused_on_the_node_of_rank_0_alone(serve: Serve):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        error = refused(serve, master_port=port)
        elsewhere = serve.ok("prepare", order=order("7-2-b", master_port=port, node_rank=1))

    assert (error["code"], error["class"]) == ("port_taken", "node")
    assert str(port) in error["cause"]
    assert elsewhere["cards"] == {}


def test_a_prepared_run_has_claimed_nothing_and_its_order_is_private(node: LocalNode, serve: Serve):
    serve.ok("prepare", order=order("7-1-a", env={"TOKEN": "secret"}))
    folder = node.folder("7-1-a")

    assert not (folder / "claim.json").exists()
    assert (folder / "order.json").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "command").stat().st_mode & 0o777 == 0o700
    assert [found["state"] for found in serve.ok("look")["reports"]] == ["prepared"]


def test_shared_file_systems_are_known_by_their_mount(tmp_path: Path):
    kinds = {
        "/home/alice/.gangway-node": "nfs4",
        "/home/scratch/node": "xfs",
        "/mnt/with space/node": "fuse.sshfs",
        "/var/tmp/node": "ext4",
    }

    assert {path: machine.filesystem_of(Path(path), MOUNTS) for path in kinds} == kinds


def test_a_root_on_a_shared_file_system_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(machine, "filesystem_of", lambda path: "nfs4")
    nvml = Nvml(Source(tmp_path / "pynvml.py", None, None))
    shared = Node(tmp_path / "node", "portal", "cargo", tmp_path, nvml)

    with pytest.raises(Refusal) as refusal:
        shared.check()

    assert (refusal.value.code, refusal.value.kind) == ("shared_filesystem", "request")
    assert "nfs4" in refusal.value.cause
    assert not (tmp_path / "node").exists()


def test_a_root_that_cannot_be_made_says_so(node: LocalNode, tmp_path: Path):
    (tmp_path / "file").touch()

    error = node.once("hello", f"--root={tmp_path / 'file' / 'node'}")["error"]

    assert (error["code"], error["class"]) == ("no_root", "node")


def test_the_command_runs_as_the_user_of_the_order():
    """Root may name any user; a plain account only itself."""
    name = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o711)
        node = LocalNode(Path(base))
        node.run(serve := node.serve(), "7-1-a", "id -un; pwd; touch $TMPDIR/x", account=name)
        ended = serve.event("7-1-a", 5)
        node.close()

    assert (ended["exit"], ended["oom"]) == (0, False)
    said = base64.b64decode(ended["head"]).decode().split()
    assert said == [name, str(node.folder("7-1-a") / "work")]


def test_a_user_who_could_not_reach_the_run_is_told_where_the_way_ends(tmp_path: Path):
    tmp_path.chmod(0o700)
    somebody = pwd.getpwnam("nobody")

    assert not may_enter(somebody, tmp_path)
    tmp_path.chmod(0o711)
    assert may_enter(somebody, tmp_path)
