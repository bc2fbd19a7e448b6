"""The process that stays with a run from its start to its end, whatever happens to the connection.

Owns the start, the deadlines (grace, time limit) on the monotonic clock, the reaping of escapees
and the account of how it ended. Never talks to anybody: orders reach it as renamed files.
A new order: name its file in paths.py and read it in `obey`.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from . import cap, facts, farewell, launch, outcome, tree
from .detach import become_subreaper, note
from .files import Fact, sync, write_json
from .outcome import Exit
from .paths import RunPaths
from .progress import Progress
from .record import Record
from .stopping import Stopping
from .watchful import Seen

TICK_S = 0.08


class Keeper:
    """Runs the command of one claimed run; `keep` returns when nothing of it is alive."""

    def __init__(self, paths: RunPaths, order: Fact, claim: Fact, bin_dir: Path) -> None:
        self.paths, self.order, self.bin_dir = paths, order, bin_dir
        self.record = Record(paths, order, claim)
        self.boot = claim["boot_id"]
        self.ranks: List[launch.Rank] = []
        self.exits: Dict[int, Exit] = {}
        self.childless = False
        self.own_end: Optional[bool] = None
        self.stopping = Stopping(paths, self.alive, self.rank_0)
        self.seen = Seen(paths)
        self.cap = cap.LogCap(paths, order["log_max_mib"])
        self.kills_before = outcome.oom_kills()
        self.orders: Dict[Path, object] = {}

    def keep(self, ready: int) -> None:
        """`ready` is closed when the start is written down: somebody waits for it."""
        become_subreaper()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self.start()
        os.close(ready)
        while not self.over():
            self.enforce()
            signal.sigtimedwait({signal.SIGCHLD}, TICK_S)
            self.reap()
            self.record.hold(self.started())
            self.obey()
            self.judge()
        self.finish()

    def enforce(self) -> None:
        """Something of the run is left; where its leaders are through, it is asked to leave."""
        if self.own_end and self.stopping.signalled_s is None:
            self.stopping.begin(None, self.order["grace_s"], "TERM")
        if 0 in self.exits:
            self.stopping.widen()
        self.stopping.tick()
        self.progress.look()
        self.seen.look(self.ranks)
        self.cap.look(self.ranks)

    def start(self) -> None:
        self.started_at_s, self.started_s = time.time(), time.monotonic()
        self.progress = Progress(self.paths, self.started_s)
        several = launch.several(self.order)
        try:
            for folder in (self.paths.tmp, self.paths.work):
                folder.mkdir(mode=0o700, exist_ok=True)
            for local in range(several):
                self.ranks.append(launch.start_rank(self.order, self.paths, self.bin_dir, local))
            write_json(self.paths.started, self.started())
        except OSError:  # no memory, no process left, no disk: what did start is ended at once
            note(self.paths.keeper_log)
            first = self.order["first_rank"]
            for number in range(first + len(self.ranks), first + several):
                self.exits[number] = Exit(number, launch.NOT_EXECUTABLE, None, time.monotonic())
            self.own_end = True
            self.stopping.begin(None, 0.0, "KILL")

    def started(self) -> Fact:
        return {
            "boot_id": self.boot,
            "started_at_s": self.started_at_s,
            "started_monotonic_s": self.started_s,
            "ranks": [rank._asdict() for rank in self.ranks],
        }

    def alive(self) -> List[tree.Process]:
        """What is left of the run; as reaped, so that who left before a signal is known."""
        found = tree.of_run(str(self.paths.folder), os.getpid(), {})
        self.reap()
        return found

    def rank_0(self) -> List[tree.Process]:
        """The process of the job's first rank, where it runs here and lives."""
        found = [tree.read(rank.pid) for rank in self.ranks if rank.rank == 0]
        return [p for p in found if p is not None and tree.is_alive(p.pid, p.start)]

    def reap(self) -> None:
        numbers = {rank.pid: rank.rank for rank in self.ranks}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                # a subreaper without children has no descendants either
                self.childless = True
                return
            self.childless = False
            if pid == 0:
                return
            if pid in numbers and numbers[pid] not in self.exits:
                self.exits[numbers[pid]] = outcome.exit_of(numbers[pid], status)

    def obey(self) -> None:
        stop = self.changed(self.paths.stop)
        if stop is not None:
            self.seen.look(self.ranks, now=True)
            self.stopping.hear(stop)
        limit = self.changed(self.paths.limit)
        if limit is not None:
            self.order["time_limit_s"] = limit["limit_s"]
        limit_s = self.order["time_limit_s"]
        over = limit_s is not None and time.monotonic() - self.started_s >= limit_s
        if over and self.stopping.signalled_s is None and not self.ranks_over():
            self.stopping.begin("time_limit", self.order["grace_s"], *self.call())

    def call(self) -> Tuple[str, str]:
        return self.order["signal"], self.order.get("signal_to", "group")

    def changed(self, path: Path) -> Optional[Dict[str, Any]]:
        """The order in this file if it is another one than last time."""
        try:
            found = path.stat()
        except OSError:
            return None
        stamp = (found.st_ino, found.st_mtime_ns)
        if self.orders.get(path) == stamp:
            return None
        self.orders[path] = stamp
        return facts.read(path)

    def ranks_over(self) -> bool:
        return self.all_left() or any(e.failed() for e in self.exits.values())

    def all_left(self) -> bool:
        return len(self.exits) == launch.several(self.order)

    def judge(self) -> None:
        """Whose end it is: the job's own if its leaders were through before the first signal."""
        if self.own_end is None and self.ranks_over():
            failed_s = [e.at_s for e in self.exits.values() if e.failed()]
            through_s = min(failed_s) if failed_s else max(e.at_s for e in self.exits.values())
            signalled_s = self.stopping.signalled_s
            self.own_end = signalled_s is None or through_s <= signalled_s

    def over(self) -> bool:
        through = self.own_end is not None and self.all_left() and self.childless
        return through and not tree.marked(str(self.paths.folder))

    def finish(self) -> None:
        """Write how it ended; a full disk only delays it, for silence would lose the exit code."""
        self.progress.look(last=True)
        self.say_farewell()
        while True:
            self.record.hold(self.started())
            try:
                self.record.close(self.ended())
                sync(self.paths.ended)
                return
            except OSError:
                time.sleep(1.0)

    def logs(self) -> List[Path]:
        return [self.paths.folder / rank.log for rank in self.ranks]

    def say_farewell(self) -> None:
        told, cut = self.progress.complete(), bool(self.progress.open)
        words = farewell.line(self.stopping, self.order, told, cut, self.started_s)
        if words is not None and not self.own_end:
            farewell.append(self.logs(), words)

    def ended(self) -> Dict[str, Any]:
        exits = [self.exits[number] for number in sorted(self.exits)]
        told = outcome.told(exits, bool(self.own_end), self.stopping.reason)
        told.update(self.started())
        told["ended_at_s"] = time.time()
        told["ran_s"] = round(time.monotonic() - self.started_s, 6)
        asked_s = self.stopping.signalled_s
        told["asked_s"] = None if asked_s is None else round(asked_s - self.started_s, 3)
        told["oom"] = outcome.ran_out_of_memory(exits, self.logs(), self.kills_before)
        return told
