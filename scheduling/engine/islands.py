"""Which cards of one node: as few islands as will do, the tightest of them, groups kept whole.

Pure arithmetic over cards that are free and of the right kind; chooses no node. An island is a set
of cards that reach each other fastest (NVLink, one PCIe switch).
"""

from collections import defaultdict
from collections.abc import Sequence

from .world import Gpu


def whole(cards: Sequence[Gpu], unit: int) -> int:
    """Return how many cards there are in whole groups of ``unit``, no group over two islands."""
    if unit <= 1:
        return len(cards)
    return sum(len(island) // unit * unit for island in by_island(cards).values())


def picked(cards: Sequence[Gpu], count: int, unit: int) -> list[Gpu]:
    """Return ``count`` of the cards; ``unit`` is the size of a group, and divides ``count``.

    The tightest island that holds all of them, else the largest and so on: so whole islands stay
    whole for who needs one. Inside an island those that come first in ``cards``. Groups stay on
    one island unless the free cards leave no choice.
    """
    islands = by_island(cards)
    if len(islands) == 1:
        return list(cards[:count])
    unit = unit if whole(cards, unit) >= count else 1
    room = {id: len(found) // unit * unit for id, found in islands.items()}
    chosen: list[Gpu] = []
    while len(chosen) < count and room:
        left = count - len(chosen)
        enough = [id for id in room if room[id] >= left]
        if enough:
            best = min(enough, key=lambda id: (room[id], len(islands[id]), id))
        else:
            best = max(room, key=lambda id: (room[id], -id))
        chosen += islands[best][: min(room.pop(best), left)]
    return chosen


def by_island(cards: Sequence[Gpu]) -> dict[int, list[Gpu]]:
    """Return the cards of each island, in the order they came."""
    islands: dict[int, list[Gpu]] = defaultdict(list)
    for gpu in cards:
        islands[gpu.island].append(gpu)
    return islands
