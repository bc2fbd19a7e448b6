"""One connection to a machine: what is said, how long it may take, whom it trusts."""

import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nodes import keys, transport
from nodes.errors import HostKeyChanged, KeyRejected, NodeUnreachable
from nodes.transport import host_key_of, open_wire
from nodes.wire import LINE_LIMIT, LocalWire

from .machines import Machine, OpenSsh, free_port, until

TOLD = "cat; echo aside >&2; exit 7"


@pytest.fixture
def wire(machine: Machine):
    opened = open_wire(machine.door())
    yield opened
    opened.close()


def test_a_command_gives_the_same_answer_here_and_over_ssh(wire):
    over_ssh, here = (way.run(TOLD, stdin=b"a\0b" * 99, timeout_s=9) for way in (wire, LocalWire()))

    assert over_ssh == here
    assert (here.status, here.stdout, here.stderr) == (7, b"a\0b" * 99, b"aside\n")


def test_a_command_that_does_not_read_its_stdin_is_no_error(wire):
    assert wire.run("exit 3", stdin=b"x" * 3_000_000, timeout_s=9).status == 3


@pytest.mark.parametrize("command", ["sleep 60", "while :; do echo; done"])
def test_a_command_without_end_is_given_up_and_the_connection_goes_on(wire, command):
    begun = time.monotonic()
    with pytest.raises(NodeUnreachable, match="did not finish a command within 1 s"):
        wire.run(command, timeout_s=1, limit=10**12)

    assert time.monotonic() - begun < 3
    assert wire.run("echo on", timeout_s=5).stdout == b"on\n"


def test_more_output_than_allowed_is_refused_not_kept(wire):
    with pytest.raises(NodeUnreachable, match="printed more than 1000 bytes"):
        wire.run("yes", timeout_s=9, limit=1000)


def test_eight_hundred_bytes_or_two_mebibytes_a_line_comes_whole(wire):
    talk = wire.talk("cat", timeout_s=5)
    for line in (b"x" * 800, b"y" * (LINE_LIMIT - 1)):
        talk.send(line, timeout_s=5)
        assert talk.next_line() == line
    talk.close()


def test_a_line_without_end_ends_the_talk(wire):
    talk = wire.talk("yes | tr -d '\\n'", timeout_s=5)

    assert talk.next_line() == b""
    talk.close()


def test_six_hundred_commands_at_once_are_all_answered(machine):
    door = machine.door()
    wires = [open_wire(door) for _ in range(8)]

    def one(number: int) -> bool:
        text = str(number).encode()
        done = wires[number % 8].run(f"cat; exit {number % 7}", stdin=text, timeout_s=60)
        return (done.status, done.stdout) == (number % 7, text)

    with ThreadPoolExecutor(64) as pool:
        good = sum(pool.map(one, range(600)))
    for wire in wires:
        wire.close()

    assert good == 600


def test_a_changed_host_key_is_refused_before_anything_is_said(machine):
    other = keys.new_pair().public

    with pytest.raises(HostKeyChanged, match="ssh-ed25519 host key that is not the pinned one"):
        open_wire(machine.door(host_key=other))


def test_a_key_that_is_not_let_in_is_named_with_its_account(machine):
    stranger = keys.opened(keys.new_pair().sealed)

    with pytest.raises(KeyRejected, match=f"let the portal's key in as {machine.account}"):
        open_wire(machine.door(private_key=stranger))


@pytest.mark.needs("sshd")
def test_the_pinned_kind_of_host_key_is_asked_for(openssh_with_rsa):
    shown = host_key_of(openssh_with_rsa.address, openssh_with_rsa.port)
    rsa = " ".join((openssh_with_rsa.folder / "rsa.pub").read_text().split()[:2])

    assert shown.startswith("ssh-ed25519 ")
    open_wire(openssh_with_rsa.door(host_key=rsa)).close()


@pytest.mark.needs("sshd")
def test_a_server_with_only_a_sha1_mac_is_not_spoken_to(tmp_path):
    old = OpenSsh(tmp_path, "127.0.5.3", "MACs hmac-sha1", "Ciphers aes128-ctr")
    try:
        with pytest.raises(NodeUnreachable, match="did not finish the SSH handshake"):
            host_key_of(old.address, old.port)
    finally:
        old.kill()


def test_a_port_where_nobody_listens_is_told_with_its_address():
    port = free_port()

    with pytest.raises(NodeUnreachable, match=f"127.0.0.1:{port} cannot be reached.*refused"):
        host_key_of("127.0.0.1", port)


def test_a_host_that_does_not_answer_times_out_with_its_address(monkeypatch):
    monkeypatch.setattr(transport, "CONNECT_LIMIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        first = [socket.socket() for _ in range(4)]
        for waiting in first:  # they fill the queue that nobody empties
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        with pytest.raises(NodeUnreachable, match=f"127.0.0.1:{port} did not answer"):
            host_key_of("127.0.0.1", port)
        for waiting in first:
            waiting.close()


def test_a_port_that_is_not_sshds_is_told_in_time(monkeypatch):
    monkeypatch.setattr(transport, "HANDSHAKE_LIMIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        begun = time.monotonic()
        with pytest.raises(NodeUnreachable, match="did not finish the SSH handshake"):
            host_key_of("127.0.0.1", mute.getsockname()[1])

    assert time.monotonic() - begun < 5


def test_closing_is_quick_and_leaves_no_thread(machine):
    before = threading.active_count()
    wires = [open_wire(machine.door()) for _ in range(3)]

    begun = time.monotonic()
    for wire in wires:
        wire.close()

    assert time.monotonic() - begun < 1
    until(lambda: threading.active_count() <= before, what="threads of closed wires end")


@pytest.fixture
def openssh_with_rsa(tmp_path):
    make = ["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(tmp_path / "rsa")]
    subprocess.run(make, check=True)
    server = OpenSsh(tmp_path, "127.0.5.2", f"HostKey {tmp_path}/rsa")
    yield server
    server.kill()
