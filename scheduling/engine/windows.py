"""When could a job start: the first moment at which enough nodes are free for as long as it asks.

Pure questions over the time line; keeps nothing for anybody and knows no queue. Jobs of one shape
share one search, which looks at a node's lane again only when the lane has changed since.
"""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from .fit import Need, span_of
from .hosts import Host, Wanted
from .lanes import Ask, Lane
from .stock import Stock


class Slot(NamedTuple):
    """A place in time: the nodes (ids, in rank order) that can hold the parts from ``start_us``."""

    start_us: int
    wanted: Wanted
    nodes: tuple[int, ...]


class Windows:
    """The searches of one cycle; ``looks`` counts the lanes that were looked at."""

    def __init__(self, stock: Stock) -> None:
        self.looks = 0
        self._stock = stock
        self._searches: dict[tuple[Wanted, Need], _Search] = {}

    def first(self, wanted: Wanted, need: Need, after_us: int) -> Slot | None:
        """Return the earliest slot for parts on cards of one model, None if there never is one.

        Cost: a look at each node for a new shape whose time is far, else few for each node used.
        """
        key = wanted, need
        if key not in self._searches:
            self._searches[key] = _Search(self._stock, wanted, need)
        search = self._searches[key]
        before = search.looks
        found = search.first(after_us)
        self.looks += search.looks - before
        return found


class _Search:
    """The nodes for one shape by the time from which each could hold a part.

    What is known of a node is a lower bound once its lane has changed, since lanes only fill up.
    """

    def __init__(self, stock: Stock, wanted: Wanted, need: Need) -> None:
        self.looks = 0
        self._need = need
        self._wanted = wanted
        self._stock = stock
        self._now_us = stock.time.now_us
        shelf = stock.shelf(wanted)
        hosts = (stock.hosts[rank] for rank in shelf.counts)
        self._bounds = [
            (self._now_us, host.rank)
            for host in hosts
            if shelf.kinds[host.rank].cards >= need.gpus and host.node.id not in need.excluded
        ]
        heapify(self._bounds)
        self._known: dict[int, int] = {}
        self._asks: dict[int, Ask] = {}

    def first(self, after_us: int) -> Slot | None:
        """Return the first moment from ``after_us`` at which as many nodes as needed are free."""
        later: list[tuple[int, int]] = []
        seen: list[tuple[int, int]] = []
        chosen: list[tuple[int, int]] = []
        try:
            while (found := self._next(later, seen, after_us)) is not None:
                chosen.append(found)
                if len(chosen) == self._need.nodes:
                    chosen = self._still_free(chosen, found[0], later)
                    if len(chosen) == self._need.nodes:
                        return self._slot(found[0], [rank for _, rank in chosen])
            return None
        finally:
            for bound in seen:
                heappush(self._bounds, bound)

    def _next(
        self, later: list[tuple[int, int]], seen: list[tuple[int, int]], after_us: int
    ) -> tuple[int, int] | None:
        """Take the node that is free first, of those left; ``seen`` is what to put back."""
        while self._bounds or later:
            if later and (not self._bounds or later[0] <= self._bounds[0]):
                return heappop(later)
            bound, rank = heappop(self._bounds)
            lane, ask = self._look(rank)
            if self._known.get(rank) != lane.version:
                self._known[rank] = lane.version
                start_us = self._earliest(lane, ask, bound)
                if start_us is not None:
                    heappush(self._bounds, (start_us, rank))
                continue
            seen.append((bound, rank))
            start_us = bound if bound >= after_us else self._earliest(lane, ask, after_us)
            if start_us is not None:
                heappush(later, (start_us, rank))
        return None

    def _still_free(
        self, chosen: list[tuple[int, int]], start_us: int, later: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Return those that are free from ``start_us`` too; the others may be later."""
        kept = []
        for free_us, rank in chosen:
            lane, ask = self._look(rank)
            again = start_us if free_us == start_us else self._earliest(lane, ask, start_us)
            if again == start_us:
                kept.append((free_us, rank))
            elif again is not None:
                heappush(later, (again, rank))
        return kept

    def _earliest(self, lane: Lane, ask: Ask, after_us: int) -> int | None:
        self.looks += 1
        return lane.earliest(ask, after_us)

    def _look(self, rank: int) -> tuple[Lane, Ask]:
        host = self._stock.hosts[rank]
        if rank not in self._asks:
            span = span_of(host, self._wanted, self._need)
            self._asks[rank] = self._stock.time.ask(host.node.id, span)
        return self._stock.time.lane(host.node.id, self._need.booking), self._asks[rank]

    def _slot(self, start_us: int, ranks: list[int]) -> Slot:
        hosts: list[Host] = [self._stock.hosts[rank] for rank in ranks]
        ids = tuple(id for *_, id in sorted(host.where for host in hosts))
        return Slot(start_us, self._wanted, ids)
