"""The tree of places above the node: which racks and blocks a pool has, and who is in them.

Pure and fixed for a cycle. A rack is told apart by its block and its name. What has no name is
near to nothing: such a node is in no rack, such a rack in no block but its own.
"""

from collections import defaultdict
from collections.abc import Iterable

from .world import Node

LEVELS = ("island", "node", "rack", "block")
# Of no node, one rack or one block: (), ("rack", block, rack) or ("block", block).
Place = tuple[str, ...]


class Sites:
    """The racks, blocks and islands of each pool."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: dict[tuple[int, Place], list[int]] = defaultdict(list)
        islands: dict[int, set[int]] = defaultdict(set)
        for node in nodes:
            for place in places_of(node):
                self._nodes[node.pool, place].append(node.id)
            islands[node.pool].update(gpu.island for gpu in node.gpus)
        self._islands = {pool: sorted(found) for pool, found in islands.items()}
        self._racks: dict[int, list[Place]] = defaultdict(list)
        self._blocks: dict[int, list[Place]] = defaultdict(list)
        for pool, place in sorted(self._nodes):
            if place[0] == "rack":
                self._racks[pool].append(place)
            if place[0] == "block" or not place[1]:
                self._blocks[pool].append(place)

    def nodes(self, pool: int, place: Place) -> list[int]:
        """Return the ids of the nodes in a rack or block."""
        return self._nodes.get((pool, place), [])

    def racks(self, pool: int) -> list[Place]:
        """Return the racks of a pool, sorted."""
        return self._racks.get(pool, [])

    def blocks(self, pool: int) -> list[Place]:
        """Return the blocks of a pool, and the racks that are in none, sorted."""
        return self._blocks.get(pool, [])

    def islands(self, pool: int) -> list[int]:
        """Return the numbers of the islands that nodes of a pool have, sorted."""
        return self._islands.get(pool, [])


def rack_of(node: Node) -> Place:
    """Return what tells a node's rack apart; without a name it is one of its own."""
    return (node.block, node.rack) if node.rack else (node.block, "", node.name, str(node.id))


def places_of(node: Node) -> list[Place]:
    """Return the rack and the block a node is in, as far as they have a name."""
    rack = [("rack", node.block, node.rack)] if node.rack else []
    block = [("block", node.block)] if node.block else []
    return [*rack, *block]


def reached(nodes: Iterable[Node], islands: Iterable[int]) -> str:
    """Return the lowest level that holds all of these nodes and islands; "any" for none."""
    found = list(nodes)
    if len(found) == 1:
        return "island" if len(set(islands)) == 1 else "node"
    shared = set(places_of(found[0])).intersection(*(places_of(node) for node in found[1:]))
    return next((level for level in ("rack", "block") if any(p[0] == level for p in shared)), "any")
