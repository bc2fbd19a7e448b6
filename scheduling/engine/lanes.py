"""One node's lane of the time line: which cards, CPU, RAM and disk are free from when to when.

Pure data and arithmetic: knows claims, never jobs' wishes about nodes or queues. Times are exact
(microseconds), intervals are half open, cards are bits of an int. A lane is a step function:
claims lower it, nothing raises it, so what did not fit once does not fit later at that time.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

FOREVER = 1 << 62


class Claim(NamedTuple):
    """What somebody holds of a node over [start_us, end_us); ``booking`` is its number, or 0.

    ``kept``: nobody holds it yet, room is kept for a job that waits.
    """

    start_us: int
    end_us: int
    mask: int
    cpus: int = 0
    memory_mib: int = 0
    disk_gib: int = 0
    booking: int = 0
    kept: bool = False


class Ask(NamedTuple):
    """What one part wants of a lane: ``gpus`` of the cards in ``mask``, for ``limit_us``."""

    mask: int
    gpus: int
    cpus: int
    memory_mib: int
    disk_gib: int
    limit_us: int


class Lane:
    """The step function of one node. Segment i lasts from ``times[i]`` to ``times[i + 1]``."""

    __slots__ = ("cpus", "disk_gib", "masks", "memory_mib", "times", "version")

    def __init__(self, now_us: int, mask: int, cpus: int, memory_mib: int, disk_gib: int) -> None:
        self.times = [now_us]
        self.masks = [mask]
        self.cpus = [cpus]
        self.memory_mib = [memory_mib]
        self.disk_gib = [disk_gib]
        self.version = 0

    def claim(self, claim: Claim) -> None:
        """Lower the lane by a claim. Cost: O(segments)."""
        first, last = self._cut(max(claim.start_us, self.times[0])), self._cut(claim.end_us)
        for i in range(first, last):
            self.masks[i] &= ~claim.mask
            self.cpus[i] -= claim.cpus
            self.memory_mib[i] -= claim.memory_mib
            self.disk_gib[i] -= claim.disk_gib
        self.version += 1

    def free_for(self, ask: Ask, start_us: int) -> int:
        """Return the cards that are free over the whole of the ask from ``start_us``, or 0.

        0 too when the CPU, RAM or disk would not last. Cost: O(segments).
        """
        end_us = min(start_us + ask.limit_us, FOREVER)
        mask = ask.mask
        for i in range(self._at(start_us), len(self.times)):
            if self.times[i] >= end_us:
                break
            mask &= self.masks[i]
            if mask.bit_count() < ask.gpus or self._short(i, ask):
                return 0
        return mask

    def earliest(self, ask: Ask, after_us: int) -> int | None:
        """Return the first time from ``after_us`` at which the ask is free, None for never.

        Cost: O(segments) usually: a segment that is too small by itself is never crossed twice.
        """
        start, i = max(after_us, self.times[0]), self._at(after_us)
        while True:
            blocked = self._blocked(ask, start, i)
            if blocked < 0:
                return start
            i = blocked + 1
            if i >= len(self.times):
                return None
            start = self.times[i]

    def _blocked(self, ask: Ask, start_us: int, first: int) -> int:
        """Return the segment that has to be passed before the ask could start, -1 for none."""
        end_us = min(start_us + ask.limit_us, FOREVER)
        mask = ask.mask
        for i in range(first, len(self.times)):
            if self.times[i] >= end_us:
                break
            alone = ask.mask & self.masks[i]
            if alone.bit_count() < ask.gpus or self._short(i, ask):
                return i
            mask &= alone
            if mask.bit_count() < ask.gpus:
                return first
        return -1

    def _short(self, i: int, ask: Ask) -> bool:
        return (
            ask.cpus > max(self.cpus[i], 0)
            or ask.memory_mib > max(self.memory_mib[i], 0)
            or ask.disk_gib > max(self.disk_gib[i], 0)
        )

    def _at(self, time_us: int) -> int:
        return max(bisect_right(self.times, time_us) - 1, 0)

    def _cut(self, time_us: int) -> int:
        """Return the segment that begins at a time, splitting one if none does."""
        if time_us >= FOREVER:
            return len(self.times)
        at = bisect_left(self.times, time_us)
        if at == len(self.times) or self.times[at] != time_us:
            if at == 0:
                return 0
            self.times.insert(at, time_us)
            for values in (self.masks, self.cpus, self.memory_mib, self.disk_gib):
                values.insert(at, values[at - 1])
        return at


def lowest(mask: int, count: int) -> int:
    """Return the ``count`` lowest bits that are set in a mask."""
    left = mask
    for _ in range(count):
        left &= left - 1
    return mask & ~left


def minute_s(at_us: int) -> int:
    """Return the seconds of the whole minute a moment lies in: what is told of moments."""
    return at_us // 60_000_000 * 60
