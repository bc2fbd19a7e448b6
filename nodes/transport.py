"""SSH: the only module of the server that knows paramiko.

``open_wire`` connects under a pinned host key and a time limit on every step; ``host_key_of``
asks an unknown machine for its key without trusting it. The socket is ours: without TCP_NODELAY
each round trip waits 40 ms for a delayed acknowledgement, and TCP_USER_TIMEOUT is what notices a
machine that vanished. Never: rows, verbs, retries, keys in the clear on disk.
"""

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import paramiko
from paramiko.ssh_exception import AuthenticationException, SSHException

from .errors import HostKeyChanged, KeyRejected, NodeUnreachable
from .wire import OUTPUT_LIMIT, SILENCE_LIMIT_S, STDERR_LIMIT, Done, LineSplitter, cut_off, too_slow

CONNECT_LIMIT_S = 5.0
HANDSHAKE_LIMIT_S = 8.0
AUTH_LIMIT_S = 8.0
KEEPALIVE_S = 5
UNACKNOWLEDGED_LIMIT_MS = 10_000
# OpenSSH refuses the 11th channel of a connection; one of ours is the runner's.
CHANNELS = 8
SESSION_PAUSE_S = 0.02

OLD_MACS = ["hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"]
OLD_CIPHERS = ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"]
WEAK = {"macs": OLD_MACS, "ciphers": OLD_CIPHERS}


@dataclass(frozen=True)
class Door:
    """Where a machine answers and who knocks. ``private_key`` is OpenSSH PEM, decrypted."""

    address: str
    port: int
    account: str
    private_key: str
    host_key: str

    @property
    def where(self) -> str:
        return f"{self.address}:{self.port}"


class _Transport(paramiko.Transport):
    # The default of 0.1 s makes 1,250 idle connections cost a quarter of a core.
    _active_check_timeout = 2.0


def host_key_of(address: str, port: int) -> str:
    """The key that the machine shows now, as ``type base64``. Trusts nothing, sends no key."""
    transport = _greeted(address, port, "")
    try:
        return _shown_key(transport)
    finally:
        _close(transport)


def open_wire(door: Door) -> "SshWire":
    """Connect, compare the host key, log in: about 25 ms, at most 21 s.

    Raises HostKeyChanged before anything is said, KeyRejected, or NodeUnreachable.
    """
    transport = _greeted(door.address, door.port, door.host_key.split(" ")[0])
    try:
        shown = _shown_key(transport)
        if shown != door.host_key:
            raise HostKeyChanged(
                f"{door.where} shows a {shown.split(' ')[0]} host key that is not the pinned one.",
                next_step="If the machine was reinstalled, enrol it again with manage.py add_node;"
                " otherwise somebody may stand between: tell whoever runs the network.",
            )
        _log_in(transport, door)
    except BaseException:
        _close(transport)
        raise
    transport.set_keepalive(KEEPALIVE_S)
    return SshWire(transport, door.where)


def _greeted(address: str, port: int, preferred: str) -> _Transport:
    where = f"{address}:{port}"
    transport = _Transport(_socket(address, port), disabled_algorithms=WEAK)
    transport.banner_timeout = transport.handshake_timeout = HANDSHAKE_LIMIT_S
    transport.auth_timeout = AUTH_LIMIT_S
    options = transport.get_security_options()
    # A machine has several host keys; it must show the kind that was pinned.
    wanted = "rsa" if preferred == "ssh-rsa" else preferred or "ed25519"
    options.key_types = tuple(sorted(options.key_types, key=lambda kind: wanted not in kind))
    try:
        transport.start_client(timeout=HANDSHAKE_LIMIT_S)
        transport.get_remote_server_key()
    except (SSHException, EOFError, OSError) as failed:
        _close(transport)
        raise NodeUnreachable(
            f"{where} accepted the connection and did not finish the SSH handshake: {failed}.",
            next_step="Check that this port is sshd's and that sshd lets the portal's address in.",
        ) from failed
    return transport


def _socket(address: str, port: int) -> socket.socket:
    try:
        sock = socket.create_connection((address, port), timeout=CONNECT_LIMIT_S)
    except TimeoutError as silent:
        raise NodeUnreachable(
            f"{address}:{port} did not answer within {CONNECT_LIMIT_S:.0f} s.",
            next_step="Check the address, the port and any firewall between.",
        ) from silent
    except OSError as refused:
        raise NodeUnreachable(
            f"{address}:{port} cannot be reached: {refused.strerror or refused}.",
            next_step="Check that the machine is up and that sshd listens there.",
        ) from refused
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_LIMIT_MS)
    return sock


def _close(transport: paramiko.Transport) -> None:
    # Its thread sleeps in recv for up to 2 s, and close() would wait for it.
    with contextlib.suppress(OSError):
        transport.sock.shutdown(socket.SHUT_RDWR)
    transport.close()


def _hang_up(channel: paramiko.Channel) -> None:
    with contextlib.suppress(SSHException, EOFError, OSError):  # the machine may have gone first
        channel.close()


def _shown_key(transport: _Transport) -> str:
    key = transport.get_remote_server_key()
    return f"{key.get_name()} {key.get_base64()}"


def _log_in(transport: _Transport, door: Door) -> None:
    key = paramiko.Ed25519Key.from_private_key(io.StringIO(door.private_key))
    try:
        transport.auth_publickey(door.account, key)
    except AuthenticationException as refused:
        if not transport.is_active() or "timeout" in str(refused).lower():
            raise NodeUnreachable(
                f"{door.where} broke off during the login: {refused}",
                next_step="Check sshd's log there; the portal tries again by itself.",
            ) from refused
        raise KeyRejected(
            f"{door.where} does not let the portal's key in as {door.account}.",
            next_step="Put the line that add_node printed into the account's .ssh/authorized_keys"
            " there, and check that the account is not locked.",
        ) from refused
    except (SSHException, EOFError, OSError) as failed:
        raise cut_off(door.where, failed) from failed


class _Limit:
    """Closes a channel when its time is up: paramiko's own waits for an answer have no limit."""

    def __init__(self, channel: paramiko.Channel, where: str, limit_s: float) -> None:
        self._channel, self._where, self._limit_s = channel, where, limit_s
        self._passed = threading.Event()
        self._timer = threading.Timer(limit_s, self._pass)
        self._timer.daemon = True

    def _pass(self) -> None:
        self._passed.set()
        _hang_up(self._channel)

    def __enter__(self) -> None:
        self._channel.settimeout(self._limit_s)
        self._timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._passed.is_set() or isinstance(error, TimeoutError):
            raise too_slow(self._where, "finish a command", self._limit_s) from error
        if isinstance(error, (SSHException, EOFError, OSError)):
            raise cut_off(self._where, error) from error


class SshWire:
    """One SSH connection; at most 8 commands at once go through it, one of them the runner."""

    def __init__(self, transport: paramiko.Transport, where: str) -> None:
        self.where = where
        self._transport = transport
        self._turns = threading.BoundedSemaphore(CHANNELS - 1)

    def is_open(self) -> bool:
        return self._transport.is_active()

    def close(self) -> None:
        _close(self._transport)

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float, limit: int = OUTPUT_LIMIT
    ) -> Done:
        """Run one command to its end. Raises NodeUnreachable when cut, silent or too long."""
        if not self._turns.acquire(timeout=timeout_s):
            raise too_slow(self.where, "finish earlier commands", timeout_s)
        try:
            channel = self._open(timeout_s)
            try:
                with _Limit(channel, self.where, timeout_s):
                    return self._done(channel, command, stdin, limit)
            finally:
                _hang_up(channel)
        finally:
            self._turns.release()

    def talk(self, command: str, *, timeout_s: float) -> "SshTalk":
        """Start a command that is spoken to by lines; ``timeout_s`` limits the start alone."""
        channel = self._open(timeout_s)
        with _Limit(channel, self.where, timeout_s):
            channel.exec_command(command)
        return SshTalk(channel, self.where)

    def _open(self, timeout_s: float) -> paramiko.Channel:
        give_up_at = time.monotonic() + timeout_s
        while True:
            try:
                return self._transport.open_session(timeout=timeout_s)
            except (SSHException, EOFError, OSError) as failed:
                if not self.is_open():
                    raise cut_off(self.where, failed) from failed
                # sshd counts a session until it has reaped its command, a moment after the end,
                # and paramiko may hand one refusal to another waiting open.
                if time.monotonic() > give_up_at:
                    raise too_slow(self.where, "take another command", timeout_s) from failed
                time.sleep(SESSION_PAUSE_S)

    def _done(self, channel: paramiko.Channel, command: str, stdin: bytes, limit: int) -> Done:
        channel.exec_command(command)
        with contextlib.suppress(OSError):  # it may end without reading its stdin
            channel.sendall(stdin)
            channel.shutdown_write()
        printed = _drain(channel.recv, limit)
        complaint = _drain(channel.recv_stderr, limit)[-STDERR_LIMIT:]
        status = channel.recv_exit_status()
        if not self.is_open():
            raise EOFError("it was closed while a command ran")
        return Done(status, printed, complaint)


def _drain(read: Callable[[int], bytes], limit: int) -> bytes:
    pieces, size = [], 0
    while piece := read(65536):
        size += len(piece)
        if size > limit:
            raise EOFError(f"a command printed more than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


class SshTalk:
    """A command on its own channel, spoken to by lines."""

    def __init__(self, channel: paramiko.Channel, where: str) -> None:
        self._channel, self._where = channel, where
        self._lines = LineSplitter(self._read)
        channel.settimeout(SILENCE_LIMIT_S)

    def send(self, line: bytes, *, timeout_s: float) -> None:
        try:
            self._channel.sendall(line + b"\n")
        except TimeoutError as slow:
            raise too_slow(self._where, "take a request", SILENCE_LIMIT_S) from slow
        except (SSHException, EOFError, OSError) as failed:
            raise cut_off(self._where, failed) from failed

    def next_line(self) -> bytes:
        return self._lines.next_line()

    def _read(self) -> bytes:
        try:
            return self._channel.recv(65536)
        except (SSHException, EOFError, OSError):
            return b""

    def complaint(self) -> str:
        if not self._channel.recv_stderr_ready():
            return ""
        return self._channel.recv_stderr(65536)[-STDERR_LIMIT:].decode(errors="replace").strip()

    def close(self) -> None:
        _hang_up(self._channel)
