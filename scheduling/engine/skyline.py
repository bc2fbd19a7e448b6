"""When cards come free, in one number a card: the coarse time line for the far end of a queue.

Owns two views of every node: from when each card is free for the first time, and from when it is
free for good. It knows no holes, so what it plans is late rather than early, and costs the same
for every job however many stand ahead. CPU and RAM count as the cards whose share they are.
"""

from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from .fit import Need
from .hosts import Host, Wanted
from .lanes import FOREVER
from .stock import Stock
from .timeline import TimeLine


class _Free(NamedTuple):
    """From when a node has the cards for good, as of a version of its skyline."""

    at_us: int
    rank: int
    version: int


class Skyline:
    """The nodes of a stock by when their cards come free, as the time line has it now."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._first: dict[Wanted, list[list[int]]] = {}
        self._ranked: dict[tuple[Wanted, int], list[int]] = {}
        self._last: dict[int, list[int]] = {}
        self._heaps: dict[tuple[Wanted, int], list[_Free]] = {}
        self._version: dict[int, int] = defaultdict(int)

    def soonest(self, wanted: Wanted, need: Need) -> int | None:
        """Return a moment before which no nodes have the cards: a bound, with nobody ahead."""
        key = wanted, need.gpus
        if key not in self._ranked:
            firsts = self._firsts(wanted)
            self._ranked[key] = sorted(f[need.gpus - 1] for f in firsts if len(f) >= need.gpus)
        ranked = self._ranked[key]
        return ranked[need.nodes - 1] if len(ranked) >= need.nodes else None

    def first(self, needs: Iterable[tuple[Wanted, Need]], after_us: int) -> int | None:
        """Plan a job where it is free for good first; return from when, None for never.

        ``needs``: what each of the models it could get would take. Cost: O(log nodes) for each
        part and model, and a look for each node that was taken from since.
        """
        found: list[tuple[int, Wanted, Need, list[_Free]]] = []
        for wanted, need in needs:
            nodes = self._next(wanted, need)
            if nodes:
                found.append((max(nodes[-1].at_us, after_us), wanted, need, nodes))
        if not found:
            return None
        start_us, wanted, need, nodes = min(found, key=lambda one: one[:2])
        for free in nodes:
            self._fill(free.rank, wanted, need, min(start_us + need.limit_us, FOREVER))
        return start_us

    def _next(self, wanted: Wanted, need: Need) -> list[_Free]:
        """Return as many nodes as needed, those free first; empty when too few ever are."""
        heap = self._heap(wanted, need.gpus)
        chosen: list[_Free] = []
        aside: list[_Free] = []
        while heap and len(chosen) < need.nodes:
            free = heappop(heap)
            if free.version == self._version[free.rank]:
                excluded = self._stock.hosts[free.rank].node.id in need.excluded
                (aside if excluded else chosen).append(free)
            elif (again := self._free(free.rank, wanted, need.gpus)).at_us < FOREVER:
                heappush(heap, again)
        for free in [*chosen, *aside]:
            heappush(heap, free)
        return chosen if len(chosen) == need.nodes else []

    def _heap(self, wanted: Wanted, gpus: int) -> list[_Free]:
        key = wanted, gpus
        if key not in self._heaps:
            found = (self._free(rank, wanted, gpus) for rank in self._stock.shelf(wanted).counts)
            self._heaps[key] = sorted(free for free in found if free.at_us < FOREVER)
        return self._heaps[key]

    def _fill(self, rank: int, wanted: Wanted, need: Need, end_us: int) -> None:
        host = self._stock.hosts[rank]
        last = self._lasts(host)
        for _, bit in self._cards(host, wanted)[: _shares(host, need)]:
            last[bit] = end_us
        self._version[rank] += 1

    def _free(self, rank: int, wanted: Wanted, gpus: int) -> _Free:
        cards = self._cards(self._stock.hosts[rank], wanted)
        at_us = cards[gpus - 1][0] if len(cards) >= gpus else FOREVER
        return _Free(at_us, rank, self._version[rank])

    def _cards(self, host: Host, wanted: Wanted) -> list[tuple[int, int]]:
        """Return from when each card that would do is free for good, with its bit, in order."""
        mask = _mask(self._stock.time, host, wanted)
        return sorted((at, bit) for bit, at in enumerate(self._lasts(host)) if mask >> bit & 1)

    def look(self, wanted: Wanted) -> None:
        """Note the first view of a kind of card, before anything is planned on the lanes."""
        self._firsts(wanted)

    def _firsts(self, wanted: Wanted) -> list[list[int]]:
        if wanted not in self._first:
            ranks = self._stock.shelf(wanted).counts
            self._first[wanted] = [self._first_of(self._stock.hosts[r], wanted) for r in ranks]
        return self._first[wanted]

    def _first_of(self, host: Host, wanted: Wanted) -> list[int]:
        """Return when each card that would do is free for the first time, ascending."""
        time = self._stock.time
        mask, lane = _mask(time, host, wanted), time.before_kept(host.node.id)
        found: list[int] = []
        for at, free in zip(lane.times, lane.masks, strict=True):
            new = mask & free
            found += [at] * new.bit_count()
            mask &= ~new
        return found

    def _lasts(self, host: Host) -> list[int]:
        """Return from when each card of a node is free for good, in the order of its bits."""
        if host.rank not in self._last:
            lane = self._stock.time.lane(host.node.id)
            ends = [*lane.times[1:], FOREVER]
            last = [lane.times[0]] * len(host.node.gpus)
            for end, free in zip(ends, lane.masks, strict=True):
                for bit in range(len(last)):
                    if not free >> bit & 1:
                        last[bit] = end
            self._last[host.rank] = last
        return self._last[host.rank]


def _mask(time: TimeLine, host: Host, wanted: Wanted) -> int:
    _, model, memory_mib, _, capability, island, _, _ = wanted
    return time.mask(host.node.id, model, memory_mib, capability, island)


def _shares(host: Host, need: Need) -> int:
    """Return how many cards' shares a part takes of a node."""
    cpus = -(-need.cpus_on(host) // host.share_cpus) if host.share_cpus else 0
    memory = -(-need.memory_on(host) // host.share_memory_mib) if host.share_memory_mib else 0
    return max(need.gpus, cpus, memory)
