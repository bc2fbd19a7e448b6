"""Which nodes, when one rack cannot hold a job: the fewest racks, of these the fewest blocks.

Pure questions over stock.py and fit.py. Knows no queue and no levels: levels.py says when a job may
be spread so far.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from math import comb

from .fit import Need, fitting
from .hosts import Host
from .sites import Place, rack_of
from .stock import Shelf, Stock

# Sets of blocks that are compared; beyond that many, racks alone are counted.
MOST_SETS = 256


def fewest_racks(stock: Stock, shelf: Shelf, need: Need) -> list[Host] | None:
    """Choose nodes in as few racks as can hold the parts, in as few blocks as those can be in.

    Largest racks first, and of those that hold the rest the one that it fills most tightly; inside
    a rack the tightest nodes. A node or rack without a name counts as a rack or block of its own.
    Cost: a look at every node with room; up to MOST_SETS sets of blocks.
    Source: the same order as Kueue's best fit over domains (free 3, 3, 2, 1 for 7: 3 + 3 + 1).
    """
    racks: dict[Place, list[Host]] = defaultdict(list)
    for host in fitting(stock, shelf, need):
        racks[rack_of(host.node)].append(host)
    least = _least(racks.values(), need.nodes)
    if least is None:
        return None
    blocks: dict[Place, list[Place]] = defaultdict(list)
    for rack in racks:
        blocks[_block(rack)].append(rack)
    for size in range(1, min(least, len(blocks)) + 1):
        if comb(len(blocks), size) > MOST_SETS:
            break
        found = [
            _filled(shelf, [(rack, racks[rack]) for block in some for rack in blocks[block]], need)
            for some in combinations(sorted(blocks), size)
            if _least((racks[rack] for block in some for rack in blocks[block]), need.nodes)
            == least
        ]
        if found:
            return min(found, key=lambda hosts: (_left(shelf, hosts), _names(hosts)))
    return _filled(shelf, list(racks.items()), need)


def _block(rack: Place) -> Place:
    return rack[:1] if rack[0] else rack


def _least(racks: Iterable[list[Host]], nodes: int) -> int | None:
    """Return the fewest racks that have enough nodes together."""
    for count, found in enumerate(sorted(map(len, racks), reverse=True), start=1):
        nodes -= found
        if nodes <= 0:
            return count
    return None


def _filled(shelf: Shelf, racks: list[tuple[Place, list[Host]]], need: Need) -> list[Host]:
    """Take whole racks, the largest first, then the rest from the one it fills most tightly."""
    left = sorted(racks, key=lambda one: (-len(one[1]), _left(shelf, one[1]), one[0]))
    chosen: list[Host] = []
    while True:
        rest = need.nodes - len(chosen)
        if len(left[0][1]) >= rest:
            enough = [(len(hosts), hosts[:rest]) for _, hosts in left if len(hosts) >= rest]
            _, last = min(enough, key=lambda one: (_left(shelf, one[1]), one[0], _names(one[1])))
            return chosen + last
        chosen += left.pop(0)[1]


def _left(shelf: Shelf, hosts: list[Host]) -> int:
    """Return how many cards are free on nodes; equally many are taken, so fewest are left over."""
    return sum(shelf.counts[host.rank] for host in hosts)


def _names(hosts: list[Host]) -> list[tuple[str, str, str, int]]:
    return sorted(host.where for host in hosts)
