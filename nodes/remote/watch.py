"""Events: what became of the runs that live here, told within 100 ms without being asked.

Owns the comparison of what was told with what is. Holds no state of a run: files do.
"""

from __future__ import annotations

import time
import traceback
from typing import Callable, Dict, Generator, List, Set

from . import report
from .gate import gated
from .node import Node
from .paths import RunPaths
from .protocol import Answer
from .waiting import Steps, Wait

TICK_S = 0.05
IDLE_S = 0.25
KEEPERS_S = 1.0


class Watch:
    """One per connection; `steps` never ends, `tell` gets each event."""

    def __init__(self, node: Node, tell: Callable[[Answer], None]) -> None:
        self.node, self.tell = node, tell
        self.told: Dict[str, int] = {}
        self.open: Set[str] = set()
        self.paths: Dict[str, RunPaths] = {}
        self.keepers_s = 0.0
        self.progress: Dict[str, int] = {}

    def steps(self) -> Steps:
        while True:
            yield Wait(time.monotonic() + (TICK_S if self.open else IDLE_S))
            try:
                yield from self.turn()
            except Exception:  # the loop's edge: one broken run must not silence the others
                traceback.print_exc()

    def turn(self) -> Generator[Wait, None, None]:
        live = set(self.node.root.live_runs())
        self.told = {run: seq for run, seq in self.told.items() if run in live}
        self.progress = {run: n for run, n in self.progress.items() if run in live}
        self.paths = {run: paths for run, paths in self.paths.items() if run in self.open}
        self.open = {run for run in live if self.told.get(run, 0) not in (2, 5)}
        thorough = time.monotonic() >= self.keepers_s
        if thorough:
            self.keepers_s = time.monotonic() + KEEPERS_S
        reports = [self.news(run) for run in sorted(self.open) if thorough or self.moved(run)]
        fresh = [found for found in reports if self.is_news(found)]
        self.told.update((found["run"], 2) for found in reports if found["seq"] == 2)
        # noted before the cards are asked: nothing is told twice while that takes its time
        self.told.update((found["run"], found["seq"]) for found in fresh)
        self.progress.update((found["run"], counted(found)) for found in fresh)
        known = yield from gated(self.node, fresh)
        for found in known:
            self.tell({"event": "run", "report": found})

    def is_news(self, found: report.Report) -> bool:
        """A new fact of the run, or what its job told of its progress since."""
        run = found["run"]
        if found["seq"] > max(2, self.told.get(run, 0)):
            return True
        return found["seq"] == 3 and counted(found) > self.progress.get(run, 0)

    def moved(self, run: str) -> bool:
        """One or two stats: has this run started or ended since it was last told of?"""
        paths = self.paths.get(run)
        if paths is None:
            paths = self.paths[run] = self.node.root.run(run)
        return paths.ended.exists() or (run not in self.told and paths.started.exists())

    def news(self, run: str) -> report.Report:
        return report.of(self.node.root.run(run), self.node.boot)

    def heard(self, reports: List[report.Report]) -> None:
        """An answer on this connection has told these; an end is told as an event all the same."""
        for found in reports:
            if found["seq"] in (2, 3):
                self.told[found["run"]] = found["seq"]


def counted(found: report.Report) -> int:
    """How many lines of its job's progress a report has taken in."""
    count: int = (found["progress"] or {"n": 0})["n"]
    return count
