"""``manage.py add_node``: machines that become nodes, and machines that are told why not."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import (
    BaseCommand,
    CommandError,
    call_command,
    load_command_class,
)

from nodes import enroll, keys, survey, transport
from nodes.demo.nvml import default_state
from nodes.models import Gpu, Node
from nodes.survey import filesystem, is_shared
from scheduling.models import AuditEntry, PoolNode

from .machines import NVML, Machine, odd_demo

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_home(settings, tmp_path):
    settings.GANGWAY_HOME = tmp_path / "portal-home"


def add(machine: Machine, *extra: str, name: str = "fresh", nvml: bool = True) -> str:
    """Run the command as an operator's script would; what it printed."""
    said = io.StringIO()
    words = [machine.address, "--port", str(machine.port), "--account", machine.account]
    words += ["--name", name, "--authorized-keys", str(machine.authorized_keys)]
    words += ["--from", "127.0.0.0/8"]
    if nvml:
        words += ["--nvml-module", NVML]
    if "--root" not in extra:
        words += ["--root", str(machine.folder / f"enrolled-{name}" / "root")]
    call_command("add_node", *words, *extra, stdout=said)
    return said.getvalue()


def refused(machine: Machine, *extra: str, **options: object) -> str:
    """Why the machine did not become a node; nothing was written."""
    before = (Node.objects.count(), Gpu.objects.count())
    with pytest.raises(CommandError) as error:
        add(machine, *extra, **options)
    assert (Node.objects.count(), Gpu.objects.count()) == before
    return str(error.value)


def test_one_command_makes_a_machine_a_working_node(machine):
    said = add(machine, "--yes", "--label", "fabric=ib", "--rack", "r7", "--pool", "big")

    node = Node.objects.get(name="fresh")
    assert "fresh works in pool big: 8 cards (" in said
    assert "H100" in said
    assert node.gpus.filter(present=True, foreign_use="").count() == 8
    assert (node.labels, node.rack, node.port) == ({"fabric": "ib"}, "r7", machine.port)
    assert node.host_key == transport.host_key_of(machine.address, machine.port)
    assert PoolNode.objects.get(node=node).pool.name == "big"
    assert AuditEntry.objects.filter(verb="put to work").exists()
    assert "PRIVATE KEY" in keys.opened(node.private_key)


def test_the_default_folder_names_the_portal_and_the_node(demo, settings):
    add(demo, "--yes", "--root", "")

    node = Node.objects.get(name="fresh")
    home = demo.folder / "home" / ".gangway-node"
    assert node.root == str(home / settings.GANGWAY_INSTANCE / str(node.uuid))


def test_a_demo_node_has_the_size_it_pretends_to_have(demo):
    add(demo, "--yes")

    node = Node.objects.get(name="fresh")
    assert (node.cpus, node.memory_mib, node.disk_gib) == (64, 524288, 900)
    assert node.facts["hostname"] == "demo-t"


def test_the_same_name_again_updates_the_row_and_keeps_its_key(machine):
    add(machine, "--yes", "--label", "fabric=ib")
    was = Node.objects.get()

    add(machine, "--label", "tier=gold")

    now = Node.objects.get()
    assert (now.pk, now.private_key, now.uuid) == (was.pk, was.private_key, was.uuid)
    assert now.labels == {"fabric": "ib", "tier": "gold"}


def test_an_alarm_ends_when_the_machine_is_enrolled_again(machine):
    add(machine, "--yes")
    Node.objects.update(alarm="its host key changed")

    add(machine)

    assert Node.objects.get().alarm == ""


def test_an_unknown_host_key_is_not_trusted_by_itself(machine):
    said = refused(machine)

    assert keys.fingerprint(transport.host_key_of(machine.address, machine.port)) in said
    assert "was not accepted" in said


def test_the_fingerprint_given_must_be_the_one_shown(machine):
    assert "was not accepted" in refused(machine, "--fingerprint", "SHA256:other")
    shown = keys.fingerprint(transport.host_key_of(machine.address, machine.port))

    add(machine, "--fingerprint", shown)

    assert Node.objects.get().name == "fresh"


def test_a_changed_host_key_is_not_waved_through_by_yes(machine):
    add(machine, "--yes")
    Node.objects.update(host_key=keys.new_pair().public)

    assert "was not accepted" in refused(machine, "--yes")

    shown = keys.fingerprint(transport.host_key_of(machine.address, machine.port))
    add(machine, "--fingerprint", shown)
    assert keys.fingerprint(Node.objects.get().host_key) == shown


def test_a_failed_try_is_repeated_with_the_key_that_was_handed_out(machine, tmp_path):
    elsewhere = tmp_path / "not-there-yet"
    said = refused(machine, "--yes", "--authorized-keys", str(elsewhere))
    assert "does not let the portal's key in" in said
    handed_out = elsewhere.read_text()
    with machine.authorized_keys.open("a") as file:
        file.write(handed_out)

    add(machine, "--yes", "--authorized-keys", str(elsewhere))

    assert elsewhere.read_text() == handed_out
    assert Node.objects.get().public_key in handed_out
    assert not list((enroll._pending_file("fresh").parent).iterdir())


def test_key_only_prints_the_line_and_speaks_to_nobody():
    said = io.StringIO()
    call_command("add_node", "192.0.2.1", "--key-only", "--from", "192.0.2.9", stdout=said)

    assert 'restrict,from="192.0.2.9" ssh-ed25519 AAAA' in said.getvalue()
    assert said.getvalue().rstrip().endswith("gangway 192.0.2.1")
    assert not Node.objects.exists()


def test_a_machine_without_python3_is_told_to_get_it(tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    with odd_demo(tmp_path / "odd", {"PATH": str(bare)}) as machine:
        said = refused(machine, "--yes")

    assert "has no python3 on the account's PATH" in said
    assert "apt-get install python3" in said


def test_a_machine_with_an_old_python3_is_told_which_is_needed(tmp_path):
    answer = json.dumps({"python": [3, 6, 9], "there": False, "root": "/r", "time_s": 0})
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").write_text(f"#!/bin/sh\necho '{answer}'\n")
    (bare / "python3").chmod(0o755)
    with odd_demo(tmp_path / "odd", {"PATH": str(bare)}) as machine:
        said = refused(machine, "--yes")

    assert "has Python 3.6.9; the runner needs 3.8 or later" in said


def test_a_machine_without_the_driver_is_told_so(machine):
    said = refused(machine, "--yes", nvml=False)

    assert "does not answer for its GPUs" in said
    assert "NVIDIA driver" in said


def test_a_machine_whose_driver_shows_no_card_is_told_so(tmp_path):
    state = tmp_path / "none.json"
    state.write_text(json.dumps({"driver": "580", "gpus": []}))
    with odd_demo(tmp_path / "odd", {"GANGWAY_FAKE_NVML": str(state)}) as machine:
        assert "has no NVIDIA card" in refused(machine, "--yes")


def test_a_full_disk_is_told_with_what_is_free(tmp_path):
    with odd_demo(tmp_path / "odd", {"GANGWAY_FAKE_NODE": '{"disk_free_gib": 0}'}) as machine:
        assert "has 0 GiB free under" in refused(machine, "--yes")


def test_a_root_on_a_shared_file_system_is_refused_and_a_local_one_offered(demo, monkeypatch):
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    here = filesystem(str(demo.folder), [[mount[1], mount[2]] for mount in mounts])
    monkeypatch.setattr(survey, "SHARED", (here,))

    said = refused(demo, "--yes", name="on-nfs")

    assert f"lies on a shared file system ({here})" in said
    assert "Give a local one with --root" in said
    assert not (demo.folder / "enrolled-on-nfs").exists()


def test_the_deepest_mount_decides_what_a_folder_lies_on():
    mounts = [["/", "ext4"], ["/home", "nfs4"], ["/home/zoe/local", "xfs"], ["/homes", "xfs"]]

    paths = ["/var", "/home/zoe", "/home/zoe/local/x", "/homes/zoe"]
    assert [filesystem(path, mounts) for path in paths] == ["ext4", "nfs4", "xfs", "xfs"]
    assert is_shared("nfs4")
    assert is_shared("fuse.sshfs")
    assert not is_shared("ext4")


def test_a_folder_that_cannot_be_made_is_named(demo):
    assert "/proc/gangway" in refused(demo, "--yes", "--root", "/proc/gangway/root")


@pytest.mark.parametrize("root", ["relative", "/a'b", "/a\nb", "/a;b", "$HOME/x", "~zoe;x"])
def test_a_folder_with_odd_characters_is_refused_before_anything_is_said(demo, root):
    assert "not an absolute path in plain characters" in refused(demo, "--yes", "--root", root)


def test_a_node_of_another_portal_is_refused_unless_taken_over(machine, settings):
    add(machine, "--yes", name="twice")
    ours, settings.GANGWAY_INSTANCE = settings.GANGWAY_INSTANCE, "another-portal"
    assert ours in refused(machine, "--yes", name="twice")

    add(machine, "--yes", "--take-over", name="twice")

    assert Node.objects.get().name == "twice"


def test_a_card_in_use_by_somebody_outside_is_noted_and_waits(tmp_path):
    cards = json.loads(json.dumps(_eight_cards()))
    cards["gpus"][3]["processes"] = [{"pid": 1, "used_mib": 20480}]
    cards["gpus"][3]["used_mib"] = 20480
    state = tmp_path / "cards.json"
    state.write_text(json.dumps(cards))
    with odd_demo(tmp_path / "odd", {"GANGWAY_FAKE_NVML": str(state)}) as machine:
        said = add(machine, "--yes")

    assert "Note: Card 3 is in use from outside and waits: root, pid 1" in said
    assert Gpu.objects.exclude(foreign_use="").get().index == 3


def _eight_cards() -> dict:
    return default_state("NVIDIA H100 80GB HBM3", 81559, 8, "busy")


def test_a_clock_that_differs_is_noted():
    ground = survey.Ground("/r", 0, -75.0)
    probe = {"gpus": [{"uuid": "GPU-1", "memory_mib": 81559}], "node": {}}

    assert survey.judge(probe, ground, "a") == ["Its clock is 75 s behind the portal's."]


def test_logins_that_take_shared_memory_with_them_are_refused():
    probe = {
        "gpus": [{"uuid": "GPU-1", "memory_mib": 81559}],
        "node": {"linger": False, "remove_ipc": True},
    }

    with pytest.raises(survey.EnrolmentFailed, match="logind removes the account's shared memory"):
        survey.judge(probe, survey.Ground("/r", 1001, 0.0), "a")
    assert survey.judge(probe, survey.Ground("/r", 0, 0.0), "a") == []
    survey.judge(probe, survey.Ground("/r", 1001, 0.0), "a", pretended=True)


def test_without_an_instance_number_nothing_is_enrolled(demo, settings):
    settings.GANGWAY_INSTANCE = ""

    assert "has no instance number yet" in refused(demo, "--yes")


def test_every_option_of_the_command_is_on_the_page_about_nodes(settings):
    parser = load_command_class("scheduling", "add_node").create_parser("manage.py", "add_node")
    page = (settings.BASE_DIR / "docs" / "nodes.md").read_text()

    django_s_own = BaseCommand().create_parser("manage.py", "any")
    ours = parser._option_string_actions.keys() - django_s_own._option_string_actions.keys()
    assert len(ours) > 10
    assert [word for word in sorted(ours) if f"`{word}" not in page] == []
