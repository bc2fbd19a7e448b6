"""A demo node: a real SSH server on one port, for demos and tests. No root, no install.

Public keys come from ``<folder>/authorized_keys`` (read at each login); commands run as real
processes with HOME in the folder. Connections end without ending what they started, as on any
machine; `stop` ends it all. Beside `transport`, the one place that knows paramiko. Never use it
as a machine's sshd: whoever has a key may run anything as this user.
"""

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)
from paramiko.ssh_exception import SSHException

from .processes import Processes

log = logging.getLogger(__name__)
LOGIN_LIMIT_S = 20


class _Transport(paramiko.Transport):
    _active_check_timeout = 2.0


class DemoNode:
    """One SSH server; ``delay_ms`` is waited before each command, like a far network."""

    def __init__(
        self, folder: Path, address: str, port: int, *, processes: Processes, delay_ms: int = 0
    ) -> None:
        self.folder, self.processes, self.delay_s = folder, processes, delay_ms / 1000
        self._host_key = _host_key(folder / "host_key")
        self._listener = socket.create_server((address, port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._transports: set[paramiko.Transport] = set()

    def serve(self) -> None:
        """Accept connections until `stop`; each gets a thread of its own."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(client,), daemon=True).start()

    def stop(self) -> None:
        """Close the port and every connection, then end every process of the node."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self.processes.end_all()

    def cut(self) -> None:
        """Drop every connection; what runs goes on."""
        for transport in list(self._transports):
            transport.close()

    def _greet(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = _Transport(client)
        transport.auth_timeout = LOGIN_LIMIT_S
        transport.add_server_key(self._host_key)
        self._transports.add(transport)
        try:
            transport.start_server(server=_Session(self))
            transport.join()
        except (SSHException, EOFError, OSError) as failed:
            log.info("a client left during the handshake: %s", failed)
        finally:
            transport.close()
            self._transports.discard(transport)


class _Session(paramiko.ServerInterface):
    """What a client of the demo node may do: log in by key and run commands."""

    def __init__(self, node: DemoNode) -> None:
        self._node = node

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = _keys_in(self._node.folder / "authorized_keys")
        return AUTH_SUCCESSFUL if key.get_base64() in known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        session = kind == "session"
        return OPEN_SUCCEEDED if session else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        run = threading.Thread(
            target=_run, args=(self._node, channel, command.decode()), daemon=True
        )
        run.start()
        return True


def _keys_in(file: Path) -> set[str]:
    """The base64 parts of an authorized_keys file; options and comments are left aside."""
    try:
        words = file.read_text().split()
    except OSError:
        return set()
    return {word for word in words if word.startswith("AAAA")}


def _run(node: DemoNode, channel: paramiko.Channel, command: str) -> None:
    time.sleep(node.delay_s)
    try:
        child = node.processes.start(command)
    except OSError as full:
        log.warning("cannot start a command: %s", full)
        _end(channel, 126)
        return
    assert child.stdin and child.stdout and child.stderr  # noqa: S101 - three pipes, by `start`
    _thread(_copy_down, channel, child.stdin)
    complaints = _thread(_copy_up, child.stderr, channel.sendall_stderr)
    _copy_up(child.stdout, channel.sendall)
    complaints.join()
    _end(channel, node.processes.finish(child))


def _thread(what: Callable[..., None], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=what, args=args, daemon=True)
    thread.start()
    return thread


def _copy_down(channel: paramiko.Channel, pipe: IO[bytes]) -> None:
    """Client to process, until either side has had enough."""
    with contextlib.suppress(OSError, SSHException, EOFError):
        while piece := channel.recv(65536):
            view = memoryview(piece)
            while view:
                view = view[pipe.write(view) :]
    with contextlib.suppress(OSError):
        pipe.close()


def _copy_up(pipe: IO[bytes], send: Callable[[bytes], None]) -> None:
    """Process to client. When the client has left, the pipe is closed under the process."""
    with contextlib.suppress(OSError, SSHException, EOFError):
        while piece := os.read(pipe.fileno(), 65536):
            send(piece)
    with contextlib.suppress(OSError):
        pipe.close()


def _end(channel: paramiko.Channel, status: int) -> None:
    with contextlib.suppress(OSError, SSHException, EOFError):
        channel.send_exit_status(status)
    channel.close()


def _host_key(file: Path) -> paramiko.Ed25519Key:
    """The node's host key, made at the first start and kept: it must not change."""
    if not file.exists():
        pem = Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
        )
        spare = file.with_suffix(".part")
        spare.touch(mode=0o600)
        spare.write_bytes(pem)
        spare.replace(file)
    return paramiko.Ed25519Key.from_private_key_file(str(file))
