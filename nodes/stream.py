"""The conversation with a node's runner: many requests at once on one stream, events between.

One reader thread hands each answer to the one who asked, by id; when the stream ends every
waiting one is told at once. Never: rows, connecting, retries. The protocol's lines are told in
docs/node-protocol.md; a new kind of event is a new branch of `_hear`.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any

from .errors import NodeRefused, NodeUnreachable
from .wire import Talk, Wire, cut_off, too_slow

log = logging.getLogger(__name__)

VERSION = 1
Answer = dict[str, Any]


def request_line(number: int, verb: str, args: Answer) -> bytes:
    """One request as the runner reads it, without the line's end."""
    request = {**args, "v": VERSION, "id": number, "verb": verb}
    return json.dumps(request, separators=(",", ":")).encode()


def answer_of(message: Any, where: str) -> Answer:
    """The ``ok`` of an answer. Raises NodeRefused for an error, NodeUnreachable for nonsense."""
    if isinstance(message, dict) and isinstance(message.get("ok"), dict):
        ok: Answer = message["ok"]
        return ok
    error = message.get("error") if isinstance(message, dict) else None
    if not isinstance(error, dict):
        raise cut_off(where, "the answer has neither ok nor error")
    raise NodeRefused(
        str(error.get("cause", "The node refused and gave no reason."))[:1000],
        next_step=str(error.get("next_step", ""))[:1000],
        code=str(error.get("code", "refused"))[:63],
        kind=str(error.get("class", "request"))[:15],
    )


class Conversation:
    """A running ``serve`` on a node: it speaks until its stream ends, and then for nobody.

    ``on_report`` gets each event's report, in the reader: it must not wait.
    """

    def __init__(self, talk: Talk, where: str, *, on_report: Callable[[Answer], None]) -> None:
        self.where = where
        self.heard_at = time.monotonic()
        self.hello: Future[Answer] = Future()
        self._talk = talk
        self._on_report = on_report
        self._waiting: dict[int, Future[Answer]] = {}
        self._last_number = 0
        self._ended: NodeUnreachable | None = None
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        threading.Thread(target=self._read, name=f"reader {where}", daemon=True).start()

    def is_live(self) -> bool:
        return self._ended is None

    def ask(self, verb: str, args: Answer, timeout_s: float) -> Answer:
        """Send one request and wait for its answer.

        Raises NodeRefused (an answer) or NodeUnreachable (cut, or nothing within ``timeout_s``;
        if not a line came in that time, the stream is given up for all).
        """
        asked_at = time.monotonic()
        number, answer = self._register()
        try:
            self._send(request_line(number, verb, args), timeout_s)
            return answer_of(answer.result(timeout_s), self.where)
        except NotInTime:
            slow = too_slow(self.where, f"answer {verb!r}", timeout_s)
            if self.heard_at < asked_at:
                self.end(slow)
            raise slow from None
        finally:
            self._waiting.pop(number, None)

    def _register(self) -> tuple[int, "Future[Answer]"]:
        answer: Future[Answer] = Future()
        with self._lock:
            if self._ended:
                raise self._ended
            self._last_number += 1
            self._waiting[self._last_number] = answer
            return self._last_number, answer

    def _send(self, line: bytes, timeout_s: float) -> None:
        if not self._writing.acquire(timeout=timeout_s):
            raise too_slow(self.where, "take a request", timeout_s)
        try:
            self._talk.send(line, timeout_s=timeout_s)
        finally:
            self._writing.release()

    def end(self, why: NodeUnreachable | None = None) -> None:
        """Close the stream; whoever waits hears ``why`` at once."""
        why = why or cut_off(self.where, "it was closed here")
        with self._lock:
            if self._ended:
                return
            self._ended = why
            waiting = [*self._waiting.values(), self.hello]
        for answer in waiting:
            if not answer.done():
                answer.set_exception(why)
        self._talk.close()

    def _read(self) -> None:
        while line := self._talk.next_line():
            self.heard_at = time.monotonic()
            try:
                self._hear(json.loads(line))
            except (ValueError, RecursionError) as broken:
                log.warning("%s sent a line that is not JSON: %s", self.where, broken)
                break
        said = self._talk.complaint()
        self.end(cut_off(self.where, f"the runner ended: {said}" if said else "the runner ended"))

    def _hear(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError("a line holds no object")
        answer = self._waiting.get(message["id"]) if isinstance(message.get("id"), int) else None
        if answer is not None:
            if not answer.done():
                answer.set_result(message)
        elif not self.hello.done():
            self._greet(message)
        elif message.get("event") == "run" and isinstance(message.get("report"), dict):
            self._on_report(message["report"])

    def _greet(self, message: Answer) -> None:
        """The first line: hello, or why the runner will not work in this folder."""
        if message.get("event") == "hello":
            self.hello.set_result(message)
            return
        try:
            answer_of(message, self.where)
        except (NodeRefused, NodeUnreachable) as refusal:
            self.hello.set_exception(refusal)


class OneShots:
    """The same questions, a process each: for a machine on which ``serve`` does not stay up."""

    def __init__(self, wire: Wire, command: str, *, lasts_s: float) -> None:
        self._wire, self._command = wire, command
        self._until = time.monotonic() + lasts_s

    def is_live(self) -> bool:
        return self._wire.is_open() and time.monotonic() < self._until

    def ask(self, verb: str, args: Answer, timeout_s: float) -> Answer:
        line = request_line(1, verb, args) + b"\n"
        done = self._wire.run(self._command, stdin=line, timeout_s=timeout_s)
        try:
            message = json.loads(done.stdout)
        except (ValueError, RecursionError) as broken:
            said = done.stderr.decode(errors="replace").strip()[-300:] or "nothing"
            raise NodeUnreachable(
                f"The runner on {self._wire.where} ended with {done.status}, saying: {said}.",
                next_step="Check python3 and the node's folder there.",
            ) from broken
        return answer_of(message, self._wire.where)

    def end(self) -> None:
        self._wire.close()
