"""The cargo on a node: whole or absent, once per content, whatever interrupts it."""

import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodes import cargo, ship
from nodes.errors import EnrolmentFailed, NodeUnreachable
from nodes.models import Node
from nodes.wire import Done, LocalWire


class Counting(LocalWire):
    """This machine, counting the commands."""

    commands = 0

    def run(self, command: str, **options: object) -> Done:
        self.commands += 1
        return super().run(command, **options)


def test_all_files_arrive_with_their_bytes_and_modes_for_the_account_alone(tmp_path):
    load = cargo.build()

    ship.ensure(LocalWire(), str(tmp_path), load)

    there = tmp_path / "bin" / load.hash
    for file in load.files:
        assert (there / file.name).read_bytes() == file.data
        assert (there / file.name).stat().st_mode & 0o777 == file.mode
    assert there.stat().st_mode & 0o077 == 0
    assert list((there / "__pycache__").glob("pynvml.*.pyc"))


def test_what_is_there_is_not_sent_again(tmp_path):
    wire = Counting()
    ship.ensure(wire, str(tmp_path), cargo.build())
    assert wire.commands == 2

    ship.ensure(wire, str(tmp_path), cargo.build())

    assert wire.commands == 3


def test_a_newer_cargo_lies_beside_the_older_one(tmp_path):
    old = cargo.build()
    new = cargo.Cargo("f" * 16, old.files)

    for load in (old, new):
        ship.ensure(LocalWire(), str(tmp_path), load)

    assert {path.name for path in (tmp_path / "bin").iterdir()} == {old.hash, new.hash}


def test_half_a_cargo_of_an_earlier_try_is_never_taken_for_whole(tmp_path):
    load = cargo.build()
    (tmp_path / "bin" / f"{load.hash}.77.part").mkdir(parents=True)

    ship.ensure(LocalWire(), str(tmp_path), load)

    assert (tmp_path / "bin" / load.hash / load.files[0].name).exists()


def test_eight_at_once_leave_one_whole_cargo(tmp_path):
    load = cargo.build()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ship.ensure(LocalWire(), str(tmp_path), load), range(8)))

    assert [path.name for path in (tmp_path / "bin").iterdir()] == [load.hash]


def test_a_folder_with_quotes_and_spaces_reaches_the_runner_as_it_is():
    node = Node(root="/srv/it's here $HOME", nvml_library="/opt/a b/libnvidia-ml.so")

    words = shlex.split(ship.runner_command(node, "abc", "serve", instance="i"))

    assert words[2] == "/srv/it's here $HOME/bin/abc/gangway-node.pyz"
    assert words[words.index("--root") + 1] == node.root
    assert words[words.index("--nvml-lib") + 1] == node.nvml_library


def test_a_machine_without_python3_is_told_apart_from_a_broken_one(tmp_path):
    bare = LocalWire(environment={"PATH": str(tmp_path)})
    with pytest.raises(EnrolmentFailed, match="has no python3"):
        ship.ensure(bare, str(tmp_path), cargo.build())

    broken = Path(tmp_path, "python3")
    broken.write_text("#!/bin/sh\necho 'no such module' >&2; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(NodeUnreachable, match="status 1, saying: no such module"):
        ship.ensure(bare, str(tmp_path), cargo.build())
