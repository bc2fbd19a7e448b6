"""The nodes nearest to holding a job that has no place, and what each of them lacks.

Pure questions over stock.py, asked after a cycle has placed what it could; shortage.py says it as
reasons. Whatever is short on some set of nodes that would do is a true answer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from .fit import Need, lasts, short, span_of
from .hosts import Host, Kind, Wanted
from .stock import Shelf, Stock
from .timeline import Promise

# Any set of nodes gives a true answer; looking at more only finds a nearer one.
LOOK_HOSTS = 16


@dataclass(frozen=True, slots=True)
class Near:
    """A node that could hold a part, and what it lacks for that now."""

    host: Host
    away: bool
    missing: int
    lacks: tuple[str, ...]
    promised: tuple[Promise, ...] = ()

    def distance(self) -> tuple[bool, int, int, int]:
        """Return how far the node is: away, cards missing, kinds of things short, rank."""
        return (self.away, self.missing, len(self.lacks), self.host.rank)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The nearest nodes for a job on one model: ``nearest`` are enough to hold it."""

    model: str
    shelf: Shelf
    need: Need
    nearest: tuple[Near, ...]
    apart: tuple[Near, ...]

    def distance(self) -> tuple[int, int, int, Wanted]:
        """Return the sort key that makes the nearest of several kinds the one spoken of."""
        away = sum(near.away for near in self.nearest)
        missing = sum(near.missing for near in self.nearest)
        lacks = sum(len(near.lacks) for near in self.nearest)
        return (away, missing, lacks, self.shelf.wanted)


@dataclass(frozen=True, slots=True)
class WayOut:
    """The level that the cards have to share: the outlooks on its places, and the way round it.

    ``loose``: without the level the job would start now. ``next_us``: when it takes the next level,
    0 for never.
    """

    level: str
    loose: bool
    next_us: int
    outlooks: tuple[Outlook, ...]


def shortages(stock: Stock, kinds: Iterable[tuple[Wanted, Need]]) -> list[Outlook]:
    """Return the outlook on each kind of card that could ever hold the job, the nearest first.

    Cost: at most nodes + LOOK_HOSTS hosts a kind, unless fewer could hold a part.
    """
    outlooks = [look for wanted, need in kinds if (look := _outlook(stock, wanted, need))]
    return sorted(outlooks, key=Outlook.distance)


def could_ever(shelf: Shelf, need: Need) -> bool:
    """Return whether enough nodes would hold the parts if nothing ran on them."""
    return _enough(shelf, {kind for kind in shelf.census if could_hold(kind, need)}, need)


def _enough(shelf: Shelf, fit: set[Kind], need: Need) -> bool:
    return sum(shelf.census[kind] for kind in fit) >= need.nodes


def _outlook(stock: Stock, wanted: Wanted, need: Need) -> Outlook | None:
    shelf = stock.shelf(wanted)
    fit = {kind for kind in shelf.census if could_hold(kind, need)}
    if not _enough(shelf, fit, need):
        return None
    enough = need.nodes + LOOK_HOSTS
    open_hosts = islice(_open_hosts(stock, shelf, need, fit), enough)
    away_hosts = islice(_away_hosts(stock, shelf, need, fit), enough)
    here = [_near(stock, shelf, host, need) for host in open_hosts]
    away = [_near(stock, shelf, host, need) for host in away_hosts]
    ranked = sorted([*here, *away], key=Near.distance)
    nearest = tuple(ranked[: need.nodes])
    room = sum(not near.lacks for near in here)
    spare = [near for near in sorted(away, key=Near.distance) if not near.lacks]
    apart: tuple[Near, ...] = ()
    if not any(near.away for near in nearest) and room < need.nodes <= room + len(spare):
        apart = tuple(spare[: need.nodes - room])
    return Outlook(wanted.model, shelf, need, nearest, apart)


def _near(stock: Stock, shelf: Shelf, host: Host, need: Need) -> Near:
    cards = shelf.counts.get(host.rank, -1)
    cards = host.count(shelf.wanted) if cards < 0 else cards
    away = not host.node.accepts_work or host.node.id in need.excluded
    missing = max(0, need.gpus - cards)
    lacks = short(host, cards, need)
    if missing and len(lacks) > 1:
        lacks = tuple(what for what in lacks if not _comes_along(host, missing, need, what))
    if host.node.id not in stock.time.promises:
        return Near(host, away, missing, lacks)
    promised = _in_the_way(stock, shelf, host, need, lacks)
    return Near(host, away, missing, (*lacks, "promised") if promised else lacks, promised)


def _in_the_way(
    stock: Stock, shelf: Shelf, host: Host, need: Need, lacks: tuple[str, ...]
) -> tuple[Promise, ...]:
    """Return the promises that keep a part off a node, once all that is short has come back."""
    span, node = span_of(host, shelf.wanted, need), host.node.id
    if not lacks:
        blocked = not lasts(stock, host, shelf.wanted, need)
    else:
        # Cards that are not short do not come back: those that are free now have to do.
        cards = stock.time.unpromised(node, span)
        if "gpus" not in lacks:
            cards &= stock.time.free_now(node)
        blocked = cards.bit_count() < need.gpus
    return tuple(stock.time.in_the_way(node, span)) if blocked else ()


def _comes_along(host: Host, missing: int, need: Need, what: str) -> bool:
    """Return whether CPU or RAM is enough once the missing cards are back with their share.

    Who waits for cards waits for their holders to end; saying that these also hold cores would
    only repeat it.
    """
    if what == "cpus":
        return need.cpus_on(host) <= host.cpus + missing * host.share_cpus
    if what == "memory":
        return need.memory_on(host) <= host.memory_mib + missing * host.share_memory_mib
    return False


def _open_hosts(stock: Stock, shelf: Shelf, need: Need, fit: set[Kind]) -> Iterator[Host]:
    """Yield hosts that take work and could hold a part, those with cards enough first."""
    enough, fewer = shelf.buckets[need.gpus :], shelf.buckets[: need.gpus]
    for bucket in [*enough, *reversed(fewer)]:
        for rank in bucket.ranks:
            host = stock.hosts[rank]
            if host.node.id not in need.excluded and shelf.kinds[rank] in fit:
                yield host


def _away_hosts(stock: Stock, shelf: Shelf, need: Need, fit: set[Kind]) -> Iterator[Host]:
    """Yield hosts that could hold a part but are closed or left out for this job."""
    for node in sorted(need.excluded):
        host = stock.by_id.get(node)
        if host and host.rank in shelf.counts and shelf.kinds[host.rank] in fit:
            yield host
    for host in shelf.closed:
        if shelf.kinds[host.rank] in fit:
            yield host


def could_hold(kind: Kind, need: Need) -> bool:
    """Return whether a node of a kind would hold a part if nothing ran on it."""
    lacks = short(kind, kind.cards, need)
    return not lacks or not set(lacks) - {"team_cpus", "team_memory"}
