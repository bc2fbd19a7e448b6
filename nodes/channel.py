"""`ask` a node: one kept connection a node and process, opened when first needed.

Owns who is connected, the 8 connect threads, the back-off of silent nodes and the alarms that
stop all traffic. A task is never held by a dead node: only the first question after a good time
waits for a connection, 3 s at most after the connecting began; all others hear "connecting" or
the last failure at once. Never: what verbs mean, retries, transactions around a conversation.
"""

import logging
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from functools import partial
from typing import Any, Protocol

from django.conf import settings
from django.db import connections, transaction

from . import cargo, hearing, hints, keys, ship, transport
from .breaker import Breaker
from .errors import HostKeyChanged, NodeError, NodeRefused, NodeUnreachable
from .models import Node
from .stream import Conversation, OneShots
from .wire import Wire, cut_off

log = logging.getLogger(__name__)

CONNECT_THREADS = 8
FIRST_WAIT_S = 3.0
START_LIMIT_S = 15.0
ONE_SHOTS_FOR_S = 60.0


class Speaker(Protocol):
    """What a connected node is asked through: a conversation, or one-shot commands."""

    def is_live(self) -> bool: ...

    def ask(self, verb: str, args: dict[str, Any], timeout_s: float) -> dict[str, Any]: ...

    def end(self) -> None: ...


def ask(node: Node, verb: str, args: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Ask one verb of a node: the answer's ``ok``, within about ``timeout_s`` + 3 s.

    Raises NodeRefused when the node says no, NodeUnreachable (or HostKeyChanged, KeyRejected)
    when nothing is known. Safe from many threads; not to be called in a transaction.
    """
    try:
        return _speaker(node, None).ask(verb, args, timeout_s)
    except NodeRefused as refusal:
        if refusal.kind == "foreign":
            _raise_alarm(node, refusal.cause)
            _let_go(node.pk)
        raise


def connect(node: Node, *, wait_s: float = 25.0) -> None:
    """Be connected to ``node``, waiting ``wait_s`` at most: for commands that can wait."""
    _speaker(node, wait_s)


def close_all() -> None:
    """End every connection of this process; what runs on the nodes goes on."""
    with _registry.lock:
        lines, _registry.lines = _registry.lines, {}
    for line in lines.values():
        line.close()


def _speaker(node: Node, wait_s: float | None) -> Speaker:
    if node.alarm:
        _let_go(node.pk)
        raise NodeUnreachable(
            f"All traffic to {node.name} is stopped: {node.alarm}",
            next_step="An operator looks into it and then clears the alarm of the node.",
        )
    return _registry.line_of(node).speaker(node, wait_s)


def _let_go(node_id: int) -> None:
    with _registry.lock:
        line = _registry.lines.pop(node_id, None)
    if line is not None:
        line.close()


def wire_to(node: Node) -> Wire:
    """A new connection to a node under its pinned host key."""
    door = transport.Door(
        node.address, node.port, node.account, keys.opened(node.private_key), node.host_key
    )
    return transport.open_wire(door)


def open_speaker(node: Node) -> Speaker:
    """Connect, ship the cargo if it is new there, start the runner. About 0.2 s if all is well."""
    wire = wire_to(node)
    try:
        return speaker_on(wire, node)
    except BaseException:
        wire.close()
        raise


def speaker_on(wire: Wire, node: Node, *, take_over: bool = False) -> Speaker:
    """Start the runner over an open wire: ``serve``, or one-shots if it will not stay up.

    The cargo is shipped when no runner answers, so that a reconnect costs one command. Raises
    NodeRefused when the runner will not work in the node's folder, EnrolmentFailed without python3.
    """
    load = cargo.build()
    command = partial(ship.runner_command, node, load.hash, instance=settings.GANGWAY_INSTANCE)
    serve = command("serve", take_over=take_over)
    conversation = _greeted(wire, node, serve)
    if conversation is None:
        ship.ensure(wire, node.root, load)
        conversation = _greeted(wire, node, serve)
    if conversation is None:
        log.warning("the runner on %s does not stay up; asking one by one", node.name)
        return OneShots(wire, command("once"), lasts_s=ONE_SHOTS_FOR_S)
    return _Kept(conversation, wire)


def _greeted(wire: Wire, node: Node, command: str) -> Conversation | None:
    """A conversation whose runner said hello; None when it did not and the wire still stands."""
    talk = wire.talk(command, timeout_s=START_LIMIT_S)
    conversation = Conversation(talk, wire.where, on_report=partial(hearing.drop, node.pk))
    try:
        conversation.hello.result(START_LIMIT_S)
    except (NodeUnreachable, NotInTime) as failed:
        conversation.end()
        if not wire.is_open():
            raise cut_off(wire.where, failed) from failed
        log.info("no runner on %s: %s", node.name, failed)
        return None
    return conversation


class _Kept:
    """A conversation and the connection it goes through; they end together."""

    def __init__(self, conversation: Conversation, wire: Wire) -> None:
        self._wire = wire
        self._conversation = conversation
        self.ask = conversation.ask

    def is_live(self) -> bool:
        if not self._conversation.is_live():
            self._wire.close()
        return self._conversation.is_live()

    def end(self) -> None:
        self._conversation.end()
        self._wire.close()


class Line:
    """The way to one node: at most one connection and one attempt at a time."""

    def __init__(self, node: Node) -> None:
        self.made_for = _identity(node)
        self._name = node.name
        self._speaker: Speaker | None = None
        self._connecting: Future[Speaker] | None = None
        self._since_s = 0.0
        self._breaker = Breaker(node.pk)
        self._closed = False
        self._lock = threading.Lock()

    def speaker(self, node: Node, wait_s: float | None) -> Speaker:
        now_s = time.monotonic()
        with self._lock:
            if self._speaker is not None and self._speaker.is_live():
                return self._speaker
            if self._connecting is None:
                self._refuse_if_open(now_s)
                self._since_s = now_s
                self._connecting = _registry.threads().submit(self._connect, node)
            connecting = self._connecting
            if wait_s is None:
                left_s = self._since_s + FIRST_WAIT_S - now_s
                wait_s = 0.0 if self._breaker.failures else max(0.0, left_s)
        try:
            return connecting.result(wait_s)
        except NotInTime:
            tried_s = time.monotonic() - self._since_s
            raise NodeUnreachable(
                f"{self._name} is being connected to since {tried_s:.1f} s.",
                next_step="Ask again in a moment.",
            ) from None

    def _refuse_if_open(self, now_s: float) -> None:
        left_s = self._breaker.left_s(now_s)
        why = self._breaker.why
        if left_s > 0 and isinstance(why, NodeError):
            kind = type(why) if isinstance(why, NodeUnreachable) else NodeUnreachable
            raise kind(f"{why.cause} The next try is in {left_s:.0f} s.", next_step=why.next_step)

    def _connect(self, node: Node) -> Speaker:
        """In a connect thread: one attempt, and what it means for the next."""
        try:
            speaker = open_speaker(node)
        except NodeError as failed:
            self._failed(node, failed)
            raise
        except Exception as broken:
            # Whatever it was, the line must not stay "connecting" for ever.
            log.exception("connecting to %s failed in the portal itself", node.name)
            failure = NodeUnreachable(
                f"Connecting to {node.name} failed in the portal itself: {broken}.",
                next_step="Look into the log of the nodes worker.",
            )
            self._failed(node, failure)
            raise failure from broken
        with self._lock:
            self._speaker, self._connecting = speaker, None
            self._breaker.succeed()
            closed = self._closed
        if closed:
            speaker.end()
        return speaker

    def _failed(self, node: Node, failed: NodeError) -> None:
        with self._lock:
            self._connecting = None
            self._breaker.fail(failed, time.monotonic())
        foreign = isinstance(failed, NodeRefused) and failed.kind == "foreign"
        if foreign or isinstance(failed, HostKeyChanged):
            try:
                _raise_alarm(node, failed.cause)
            finally:
                connections.close_all()

    def close(self) -> None:
        with self._lock:
            speaker, self._speaker, self._closed = self._speaker, None, True
        if speaker is not None:
            speaker.end()


def _identity(node: Node) -> tuple[object, ...]:
    """What a connection was made for; a line of another identity is not used."""
    door = (node.address, node.port, node.account, node.host_key, node.private_key)
    return (*door, node.root, node.nvml_module, node.nvml_library)


def _raise_alarm(node: Node, why: str) -> None:
    """Stop all traffic to the node until an operator clears it; the first reason stays."""
    with transaction.atomic():
        if Node.objects.filter(pk=node.pk, alarm="").update(alarm=why):
            hints.cycle_soon(f"alarm of {node.name}")
    log.error("all traffic to %s is stopped: %s", node.name, why)


class _Registry:
    """The lines of this process. A forked child starts empty: connections do not survive it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines: dict[int, Line] = {}
        self._threads: ThreadPoolExecutor | None = None

    def line_of(self, node: Node) -> Line:
        with self.lock:
            line = self.lines.get(node.pk)
            if line is not None and line.made_for == _identity(node):
                return line
            self.lines[node.pk] = fresh = Line(node)
        if line is not None:
            line.close()
        return fresh

    def threads(self) -> ThreadPoolExecutor:
        with self.lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(CONNECT_THREADS, thread_name_prefix="connect")
            return self._threads


_registry = _Registry()
# Kept for ever: a parent's connection that is garbage-collected in a child says goodbye on it.
_parents: list[_Registry] = []


def _forget_in_child() -> None:
    global _registry
    _parents.append(_registry)
    _registry = _Registry()


os.register_at_fork(after_in_child=_forget_in_child)
