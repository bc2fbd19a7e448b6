"""Requests on stdin, answers and events on stdout: `serve` for a connection, `once` for one line.

Owns the two ends of the stream. Never works on a request itself: verbs.py does, for both alike.
Half a line at the end of input is nothing: it is dropped.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

from .files import write_all
from .node import Node
from .protocol import MAX_LINE_BYTES, VERSION, Answer, Refusal, line_of, parse
from .verbs import answering
from .waiting import Loop
from .watch import Watch

QUIET_S = 60.0
TURN_S = 1.0


class Lines:
    """Whole lines from a file descriptor; one that grows too long is given as b"" and dropped."""

    def __init__(self, fd: int) -> None:
        self.fd, self.buffer = fd, b""
        self.ended = self.too_long = False

    def read(self) -> List[bytes]:
        chunk = os.read(self.fd, 1 << 18)
        self.ended = not chunk
        *lines, self.buffer = (self.buffer + chunk).split(b"\n")
        if lines and self.too_long:
            lines.pop(0)
            self.too_long = False
        found = [line if len(line) <= MAX_LINE_BYTES else b"" for line in lines]
        if len(self.buffer) > MAX_LINE_BYTES:
            if not self.too_long:
                found.append(b"")
            self.buffer, self.too_long = b"", True
        return found


class Conversation:
    """The requests of one stream under way and the lines that answer them."""

    def __init__(self, node: Node) -> None:
        self.node, self.loop = node, Loop()
        self.watch = Watch(node, self.say)
        self.cut = False

    def say(self, message: Answer) -> None:
        """One line out; a reader that has left ends the conversation, never the runs."""
        try:
            write_all(1, line_of(message))
        except BrokenPipeError:
            self.cut = True

    def hear(self, line: bytes) -> None:
        try:
            if not line:
                raise too_long()
            request = parse(line)
        except Refusal as no:
            self.say({"id": None, "error": no.as_json()})
            return
        number = request.get("id")
        if not isinstance(number, (int, str)):
            number = None

        def done(answer: Dict[str, Any]) -> None:
            self.say(dict({"id": number}, **answer))
            self.watch.heard(reports_in(answer))

        self.loop.add(answering(self.node, request), done)


def reports_in(answer: Dict[str, Any]) -> List[Answer]:
    report = answer.get("ok", {}).get("report")
    return [report] if report else []


def too_long() -> Refusal:
    return Refusal(
        "too_long",
        "request",
        "A line has no more than {} bytes, and at least one.".format(MAX_LINE_BYTES),
        "Send less in one request.",
    )


def serve(node: Node) -> None:
    """Answer until the input ends, or nothing was asked for 60 s."""
    talk = Conversation(node)
    hello = {"event": "hello", "v": VERSION, "cargo": node.cargo, "boot_id": node.boot}
    talk.say(dict(hello, python=node.python, pid=os.getpid()))
    node.nvml.warm()
    talk.loop.add(talk.watch.steps(), lambda answer: None, lasting=True)
    lines, last_s = Lines(0), time.monotonic()
    while not lines.ended and not talk.cut and time.monotonic() - last_s < QUIET_S:
        if talk.loop.turn([0], time.monotonic() + TURN_S):
            for line in lines.read():
                last_s = time.monotonic()
                talk.hear(line)
    talk.loop.finish()
    node.nvml.end()


def once(node: Node) -> None:
    """Answer one line, then leave."""
    talk, lines = Conversation(node), Lines(0)
    found: List[bytes] = []
    while not found and not lines.ended:
        found = lines.read()
    if found:
        talk.hear(found[0])
    talk.loop.finish()
    node.nvml.end()
