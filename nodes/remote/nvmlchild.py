"""The warm child that keeps NVML open, and how others ask it.

Owns the child's life: started once, asked by lines, killed when it hangs. Never calls NVML in the
asking process, because a hung driver call cannot be interrupted, only left behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any, Dict, Generator, List, NamedTuple, Optional

from .detach import cut_off, die_with_parent, set_name
from .files import write_all
from .nvml import Cards, trouble
from .waiting import Wait

HUNG_S = 5.0
COLD_S = 20.0  # opening NVML on a node without persistence mode wakes every card first

Fact = Dict[str, Any]
Asking = Generator[Wait, None, Fact]


class Source(NamedTuple):
    """Where NVML comes from; `lock` lets one process at a time open it (None: no lock)."""

    module: Path
    library: Optional[Path]
    lock: Optional[Path]


class Nvml:
    """The asking side. `ask` answers with facts or with {"nvml_error": {...}}."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.child = 0
        self.reader = self.writer = -1
        self.count = 0
        self.answers: Dict[int, Fact] = {}
        self.killed: List[int] = []
        self.newborn()

    def newborn(self) -> None:
        self.buffer = b""
        self.ready = False
        self.born_s = time.monotonic()

    def warm(self) -> None:
        """Start the child if there is none; take leave of those that were killed."""
        if self.killed:
            self.bury()
        if self.child:
            return
        self.newborn()
        down_read, self.writer = os.pipe()
        self.reader, up_write = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            live(self.source, down_read, up_write)
        os.close(down_read)
        os.close(up_write)

    def ask(self, question: Fact, limit_s: float = HUNG_S) -> Asking:
        """Ask and wait; a child that does not answer in time counts as hung and is killed."""
        self.warm()
        self.count += 1
        number, child = self.count, self.child
        self.send(dict(question, n=number))
        asked_s = time.monotonic()
        while True:
            # first of all: a child that got ready long ago said so to nobody until now
            if self.child == child and not self.read():
                return {"nvml_error": trouble("probe_died")}
            if number in self.answers:
                return self.answers.pop(number)
            if self.child != child:
                return {"nvml_error": trouble("probe_hung")}
            until_s = asked_s + limit_s if self.ready else self.born_s + COLD_S
            if time.monotonic() >= until_s:
                self.end()
                return {"nvml_error": trouble("probe_hung")}
            yield Wait(until_s, self.reader)

    def send(self, question: Fact) -> None:
        try:
            write_all(self.writer, json.dumps(question).encode("ascii") + b"\n")
        except BrokenPipeError:
            pass  # it is gone: the reading side will see that

    def read(self) -> bool:
        """Take in what there is; False (and no child any more) when it has died."""
        if not readable(self.reader):
            return True
        chunk = os.read(self.reader, 1024 * 1024)
        if not chunk:
            self.end()
            return False
        failed = False
        *lines, self.buffer = (self.buffer + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line.decode("ascii"))
            if "ready" in message:
                self.ready = True
            else:
                self.answers[message.pop("n")] = message
                failed = failed or message["nvml_error"] is not None
        if failed:
            self.end()  # the next question finds a new child, and NVML opened anew
        return True

    def end(self) -> None:
        """Kill the child and go on without it; one that hangs in the driver may stay a while."""
        if not self.child:
            return
        os.kill(self.child, signal.SIGKILL)
        os.close(self.reader)
        os.close(self.writer)
        self.killed.append(self.child)
        self.child = 0
        self.bury()

    def bury(self) -> None:
        """Take leave of killed children; one still in the driver is asked for the next time."""
        self.killed = [pid for pid in self.killed if os.waitpid(pid, os.WNOHANG)[0] == 0]


def readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def live(source: Source, down_read: int, up_write: int) -> None:
    """The child's whole life: open NVML, answer until the questions end."""
    try:
        die_with_parent()
        set_name("gangway-probe")
        cut_off({down_read, up_write})
        answer(source, down_read, up_write)
    finally:
        os._exit(0)


def answer(source: Source, down_read: int, up_write: int) -> None:
    if source.lock is not None:
        # held until this process ends
        fcntl.flock(os.open(str(source.lock), os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    cards = Cards(source.module, source.library)
    write_all(up_write, b'{"ready":true}\n')
    with os.fdopen(down_read, "rb") as questions:
        for line in questions:
            question = json.loads(line.decode("ascii"))
            facts = dict(cards.facts(question), n=question["n"])
            write_all(up_write, json.dumps(facts).encode("ascii") + b"\n")
