"""A log that outgrows its limit loses its middle, never its offsets.

Owns the hole and gap.json, which says where it is. Never moves a byte: the file system gives the
blocks back, what is read there is zeros.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Dict, List

from .detach import LIBC
from .files import write_json
from .launch import Rank
from .paths import RunPaths

KEEP_SIZE, PUNCH_HOLE = 1, 2
EVERY_S = 1.0
HEAD_BYTES = 1024 * 1024
MIB = 1024 * 1024


class LogCap:
    """Looks once a second; keeps the first MiB (a quarter of small limits) and the newest half."""

    def __init__(self, paths: RunPaths, limit_mib: int) -> None:
        self.paths, self.limit = paths, limit_mib * MIB
        self.head = min(HEAD_BYTES, self.limit // 4)
        self.next_s = time.monotonic() + EVERY_S
        self.gaps: Dict[str, List[int]] = {}

    def look(self, ranks: List[Rank]) -> None:
        if time.monotonic() < self.next_s:
            return
        self.next_s = time.monotonic() + EVERY_S
        for rank in ranks:
            try:
                self.trim(rank)
            except OSError:
                pass  # best effort: a file system without holes keeps the whole log

    def trim(self, rank: Rank) -> None:
        log = self.paths.folder / rank.log
        found = log.lstat()
        if found.st_blocks * 512 <= self.limit:
            return
        end = (found.st_size - self.limit // 2) // 4096 * 4096
        punch(log, self.head, end - self.head)
        self.gaps[str(rank.rank)] = [self.head, end]
        write_json(self.paths.gap, {"gaps": self.gaps})


def punch(log: Path, offset: int, length: int) -> None:
    """Give back the blocks of [offset, offset + length); OSError where that is not possible."""
    fd = os.open(str(log), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        mode = KEEP_SIZE | PUNCH_HOLE
        if LIBC.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
            raise OSError(ctypes.get_errno(), "this file system punches no holes")
    finally:
        os.close(fd)
