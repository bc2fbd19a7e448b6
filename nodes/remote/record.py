"""A run's record while its keeper lives: a job may spoil or remove its own folder.

Owns putting back what claim.json, order.json and started.json say, and the last word of
ended.json. Never decides how a run ended: keeper.py does.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import List, Optional, Tuple

from . import facts
from .files import Fact, link_json, write_json
from .paths import RunPaths

Stamp = Optional[Tuple[int, int]]


def stamp(path: Path) -> Stamp:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


class Record:
    """`hold` costs two stats where nothing was touched."""

    def __init__(self, paths: RunPaths, order: Fact, claim: Fact) -> None:
        self.paths, self.order, self.claim = paths, dict(order), claim
        self.seen = self.stamps()

    def stamps(self) -> List[Stamp]:
        return [stamp(self.paths.claim), stamp(self.paths.order)]

    def hold(self, started: Fact) -> None:
        """Write the record anew where claim or order are not those this keeper began with."""
        if None not in self.seen and self.stamps() == self.seen:
            return
        try:
            self.make_folder()
            write_json(self.paths.order, self.order)
            write_json(self.paths.started, started)
            write_json(self.paths.claim, self.claim)
            self.seen = self.stamps()
        except OSError:
            pass  # a full disk, or the folder goes once more: the next turn tries again

    def make_folder(self) -> None:
        folder = self.paths.folder
        if os.path.lexists(str(folder)) and not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
        folder.mkdir(mode=0o711 if self.order["account"] else 0o700, exist_ok=True)

    def close(self, ended: Fact) -> None:
        """The end, once: what is there already stands if it can be read."""
        if not link_json(self.paths.ended, ended) and facts.read(self.paths.ended) is None:
            write_json(self.paths.ended, ended)
