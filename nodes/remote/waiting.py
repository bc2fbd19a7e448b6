"""Waiting without threads: a verb that must wait is a generator that yields what it waits for.

Owns the loop that serve and once share, and `in_child` for work that may block. Never knows a verb.
One process, one thread: a keeper can be forked at any moment without a lock held by somebody else.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional

from .files import write_all
from .protocol import Answer, Refusal


class Wait(NamedTuple):
    """Resume when `fd` can be read (or is closed), at the latest at `until_s` (monotonic)."""

    until_s: float
    fd: int = -1


Steps = Generator[Wait, None, Answer]


class Task:
    """One request under way; `done` is called once with its answer or its refusal."""

    def __init__(self, steps: Steps, done: Callable[[Answer], None], lasting: bool) -> None:
        self.steps, self.done, self.lasting = steps, done, lasting
        self.wait = Wait(0.0)

    def advance(self) -> bool:
        """Go on to the next wait; False when the task is through."""
        try:
            self.wait = next(self.steps)
        except StopIteration as end:
            self.done({"ok": end.value})
        except Refusal as no:
            self.done({"error": no.as_json()})
        except OSError as broken:
            self.done({"error": broken_node(broken).as_json()})
        except Exception as broken:  # the loop's edge: one request must not end all the others
            traceback.print_exc()
            self.done({"error": broken_node(broken).as_json()})
        else:
            return True
        return False


def broken_node(broken: Exception) -> Refusal:
    return Refusal(
        "node_error",
        "node",
        "The node could not do it: {}: {}.".format(type(broken).__name__, broken),
        "Look at the node's disk and rights, then ask again.",
    )


class Loop:
    """Runs tasks until each is through; `fds` of the caller are watched beside theirs."""

    def __init__(self) -> None:
        self.tasks: List[Task] = []

    def add(self, steps: Steps, done: Callable[[Answer], None], lasting: bool = False) -> None:
        """Take up a task; a lasting one ends with the loop, `finish` does not wait for it."""
        task = Task(steps, done, lasting)
        if task.advance():
            self.tasks.append(task)

    def turn(self, fds: List[int], until_s: float) -> List[int]:
        """Wait for the next thing, advance what it concerns; returns the caller's ready fds."""
        until_s = min([until_s] + [task.wait.until_s for task in self.tasks])
        watch = select.poll()
        for fd in set(fds) | {task.wait.fd for task in self.tasks if task.wait.fd >= 0}:
            watch.register(fd, select.POLLIN)
        left_ms = max(0.0, (until_s - time.monotonic()) * 1000)
        ready = {fd for fd, _ in watch.poll(left_ms)}
        now_s = time.monotonic()
        due = [t for t in self.tasks if t.wait.fd in ready or t.wait.until_s <= now_s]
        through = {id(task) for task in due if not task.advance()}
        self.tasks = [task for task in self.tasks if id(task) not in through]
        return [fd for fd in fds if fd in ready]

    def finish(self) -> None:
        self.tasks = [task for task in self.tasks if not task.lasting]
        while self.tasks:
            self.turn([], time.monotonic() + 1.0)


def in_child(work: Callable[[], Answer], limit_s: float) -> Steps:
    """Do what may block in a forked child; killed and refused after `limit_s`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer_and_exit(work, writer)
    os.close(writer)
    until_s, data = time.monotonic() + limit_s, b""
    try:
        while True:
            yield Wait(until_s, reader)
            if time.monotonic() >= until_s:
                os.kill(child, signal.SIGKILL)
                raise Refusal(
                    "too_slow",
                    "node",
                    "The node did not finish within {:g} s.".format(limit_s),
                    "Look at the node's disk and network, then ask again.",
                )
            chunk = os.read(reader, 65536)
            if not chunk:
                break
            data += chunk
    finally:
        os.close(reader)
        os.waitpid(child, 0)
    return unpacked(data)


def answer_and_exit(work: Callable[[], Answer], writer: int) -> None:
    """The child's whole life: it never returns into the loop it was forked from."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        message: Dict[str, Any] = {"ok": work()}
    except OSError as broken:
        no = broken_node(broken)
        message = {"error": [no.code, no.kind, no.cause, no.next_step]}
    try:
        write_all(writer, json.dumps(message).encode("ascii"))
    finally:
        os._exit(0)


def unpacked(data: bytes) -> Answer:
    try:
        message: Optional[Answer] = json.loads(data.decode("ascii"))
    except ValueError:
        message = None
    if message is None:
        raise Refusal(
            "child_died",
            "node",
            "The process that worked on the request died without an answer.",
            "Ask again; look at the node's memory if it happens twice.",
        )
    if "error" in message:
        raise Refusal(*message["error"])
    answer: Answer = message["ok"]
    return answer
