"""Kinds of cards and nodes, and one node in a cycle with what is free on it.

Owns what makes two cards equal to a request (``Wanted``). Knows no other node: stock.py keeps all
of them. A new wish about cards is a field of ``Wanted`` and of ``Make``, and a line of ``suits``.
"""

from collections import Counter
from typing import NamedTuple

from .islands import whole
from .sites import Place
from .world import Gpu, Labels, Node


class Make(NamedTuple):
    """What makes cards of one node equal; they sort by it, those of least memory first."""

    model: str
    memory_mib: int
    capability: int
    island: int


class Wanted(NamedTuple):
    """The kind of card and node a request asks for: the key of a shelf.

    ``island`` is the only one whose cards count, -1 for any; ``place`` a rack or block, () for
    anywhere. Of each island only whole groups of ``unit`` cards count.
    """

    pool: int
    model: str
    memory_mib: int
    labels: Labels
    capability: int = 0
    island: int = -1
    place: Place = ()
    unit: int = 1

    def suits(self, gpu: Gpu | Make) -> bool:
        """Return whether a card is one of those asked for."""
        return (
            gpu.model == self.model
            and gpu.memory_mib >= self.memory_mib
            and gpu.capability >= self.capability
            and self.island in (-1, gpu.island)
        )


class Kind(NamedTuple):
    """What a node has in all, as a shelf sees it; many nodes are of one kind."""

    cards: int
    cpus: int
    memory_mib: int
    disk_gib: int
    share_cpus: int
    share_memory_mib: int


class Host:
    """One node in a cycle: its free cards by their make, and its free CPU, RAM and disk.

    ``where`` sorts nodes that are near each other together; it is the order of ranks.
    """

    __slots__ = (
        "_suited",
        "_totals",
        "cpus",
        "disk_gib",
        "free",
        "memory_mib",
        "node",
        "rank",
        "share_cpus",
        "share_memory_mib",
        "where",
    )

    def __init__(self, rank: int, node: Node) -> None:
        self.rank = rank
        self.node = node
        self.cpus = node.cpus_free
        self.memory_mib = node.memory_free_mib
        self.disk_gib = node.disk_free_gib
        self.share_cpus = node.cpus // max(1, len(node.gpus))
        self.share_memory_mib = node.memory_mib // max(1, len(node.gpus))
        self.where = (node.block, node.rack, node.name, node.id)
        self._totals = Counter(make_of(gpu) for gpu in node.gpus)
        self.free: dict[Make, list[Gpu]] = {make: [] for make in self._totals}
        self._suited: dict[Wanted, list[list[Gpu]]] = {}
        for gpu in sorted(node.gpus, key=lambda gpu: gpu.turn):
            if gpu.free:
                self.free[make_of(gpu)].append(gpu)

    def cards(self, wanted: Wanted) -> list[Gpu]:
        """Return the free cards a request could use, those of least memory first."""
        return [gpu for cards in self._lists(wanted) for gpu in cards]

    def count(self, wanted: Wanted) -> int:
        """Return how many free cards a request could use."""
        if wanted.unit > 1:
            return whole(self.cards(wanted), wanted.unit)
        return sum(map(len, self._lists(wanted)))

    def kind(self, wanted: Wanted) -> Kind:
        """Return what the node could offer such a request if nothing ran on it."""
        node = self.node
        if wanted.unit > 1:
            cards = whole([gpu for gpu in node.gpus if wanted.suits(gpu)], wanted.unit)
        else:
            cards = sum(many for make, many in self._totals.items() if wanted.suits(make))
        return Kind(
            cards,
            node.cpus,
            node.memory_mib,
            node.disk_gib,
            self.share_cpus,
            self.share_memory_mib,
        )

    def _lists(self, wanted: Wanted) -> list[list[Gpu]]:
        found = self._suited.get(wanted)
        if found is None:
            # The lists themselves, which change as cards are taken and given back.
            found = [self.free[make] for make in sorted(self.free) if wanted.suits(make)]
            self._suited[wanted] = found
        return found


def make_of(gpu: Gpu) -> Make:
    """Return what a card is counted under."""
    return Make(gpu.model, gpu.memory_mib, gpu.capability, gpu.island)
