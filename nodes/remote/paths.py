"""The only place that knows what the files of a node and of a run are called.

Never opens one. A new file: name it here and list it in docs/node-protocol.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import List


class RunPaths:
    """The files of one run."""

    def __init__(self, root: Path, run: str) -> None:
        self.run = run
        self.live = root / "live" / run
        self.folder = root / "runs" / run
        self.order = self.folder / "order.json"
        self.claim = self.folder / "claim.json"
        self.started = self.folder / "started.json"
        self.stop = self.folder / "stop.json"
        self.limit = self.folder / "limit.json"
        self.stopping = self.folder / "stopping.json"
        self.progress = self.folder / "progress.jsonl"
        self.saved = self.folder / "saved.json"
        self.seen = self.folder / "seen.json"
        self.gap = self.folder / "gap.json"
        self.gate = self.folder / "gate.json"
        self.ended = self.folder / "ended.json"
        self.command = self.folder / "command"
        self.tmp = self.folder / "tmp"
        self.work = self.folder / "work"
        self.warden_lock = self.folder / "warden.lock"
        self.keeper_log = self.folder / "keeper.log"

    def log(self, rank: int, several: bool) -> Path:
        return self.folder / ("out.{}.log".format(rank) if several else "out.log")


class Root:
    """The folder of one node: everything of it lies here, owner.json in the folder above."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = path.parent / "owner.json"
        self.runs = path / "runs"
        self.live = path / "live"
        self.probe_lock = path / "probe.lock"

    def run(self, run: str) -> RunPaths:
        return RunPaths(self.path, run)

    def live_runs(self) -> List[str]:
        """Runs the portal has not settled yet; the cost follows their number, not history's."""
        try:
            return sorted(entry.name for entry in self.live.iterdir())
        except FileNotFoundError:
            return []

    def mark_live(self, paths: RunPaths) -> None:
        """An empty file says: the portal has not settled this run."""
        paths.live.touch(mode=0o600)
