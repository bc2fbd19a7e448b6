"""Why a job has no place: what is short on the nodes nearest to holding it, with numbers.

Pure questions over stock.py, asked after a cycle has placed what it could. The truth of an answer
is by construction: it names whatever is short on some set of nodes that would do, so giving back
just that (a card with its share of the node) makes room. A new constraint of ``fit.short`` needs
a line in ``said``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from .fit import Need, lasts, short, span_of
from .lanes import minute_s
from .stock import Host, Kind, Shelf, Stock
from .timeline import Promise
from .world import Job, Reason, reason

# Any set of nodes gives a true answer; looking at more only finds a nearer one.
LOOK_HOSTS = 16
NAMED_HOSTS = 3
NAMED_JOBS = 5
# Cards that are held are not told: that is what waiting means.
_SAID_OF_CARDS = ("degraded", "failed", "foreign", "quarantined", "releasing")


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

    def distance(self) -> tuple[int, int, int, str]:
        """Return the sort key that makes the nearest of several models the one spoken of."""
        away = sum(near.away for near in self.nearest)
        missing = sum(near.missing for near in self.nearest)
        return (away, missing, sum(len(near.lacks) for near in self.nearest), self.model)


def shortages(stock: Stock, job: Job, needs: Iterable[tuple[str, Need]]) -> list[Outlook]:
    """Return the outlook on each model that could ever hold the job, the nearest first.

    Cost: at most nodes + LOOK_HOSTS hosts a model, unless fewer could hold a part.
    """
    outlooks = [look for model, need in needs if (look := _outlook(stock, job, model, need))]
    return sorted(outlooks, key=Outlook.distance)


def could_ever(shelf: Shelf, need: Need) -> bool:
    """Return whether enough nodes would hold the parts if nothing ran on them."""
    return _count(shelf, need) >= need.nodes


def said(job: Job, outlook: Outlook) -> tuple[Reason, ...]:
    """Return the reasons of an outlook, what blocks first; team CPU and RAM are not said here."""
    lacks = {what for near in outlook.nearest for what in near.lacks}
    reasons: list[Reason] = []
    if any(near.away for near in outlook.nearest):
        reasons.append(_unavailable(outlook, [n for n in outlook.nearest if n.away]))
    if "gpus" in lacks:
        reasons.append(_cards(job, outlook))
    for what in ("cpus", "memory", "disk"):
        if what in lacks:
            reasons.append(_side(outlook, what))
    reasons += _promised([near for near in outlook.nearest if near.promised])
    # Nodes that are closed but have room are a second way out, so they are told too.
    if outlook.apart:
        reasons.append(_unavailable(outlook, outlook.apart))
    return tuple(reasons)


def _outlook(stock: Stock, job: Job, model: str, need: Need) -> Outlook | None:
    shelf = stock.shelf(stock.wanted(job, model))
    if not could_ever(shelf, need):
        return None
    enough = need.nodes + LOOK_HOSTS
    fit = {kind for kind in shelf.census if _could_hold(kind, need)}
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
    return Outlook(model, shelf, need, nearest, apart)


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
    promised = _in_the_way(stock, shelf, host, need, bool(lacks))
    return Near(host, away, missing, (*lacks, "promised") if promised else lacks, promised)


def _in_the_way(
    stock: Stock, shelf: Shelf, host: Host, need: Need, short_too: bool
) -> tuple[Promise, ...]:
    """Return the promises that keep a part off a node, once all that is short has come back."""
    span = span_of(host, shelf.wanted, need)
    if short_too:
        blocked = stock.time.unpromised(host.node.id, span).bit_count() < need.gpus
    else:
        blocked = not lasts(stock, host, shelf.wanted, need)
    return tuple(stock.time.in_the_way(host.node.id, span)) if blocked else ()


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


def _could_hold(kind: Kind, need: Need) -> bool:
    lacks = short(kind, kind.cards, need)
    return not lacks or not set(lacks) - {"team_cpus", "team_memory"}


def _count(shelf: Shelf, need: Need) -> int:
    return sum(n for kind, n in shelf.census.items() if _could_hold(kind, need))


def _unavailable(outlook: Outlook, away: Iterable[Near]) -> Reason:
    nodes = sorted((near.host.node for near in away), key=lambda node: (node.name, node.id))
    left_out = sum(node.id in outlook.need.excluded for node in nodes)
    return reason(
        "NodeUnavailable",
        nodes=len(nodes),
        left_out=left_out,
        asked=outlook.need.nodes,
        names=", ".join(node.name for node in nodes[:NAMED_HOSTS]),
        why=next((node.why_not for node in nodes if not node.accepts_work and node.why_not), ""),
    )


def _cards(job: Job, outlook: Outlook) -> Reason:
    shelf, need = outlook.shelf, outlook.need
    counts = [len(bucket.ranks) for bucket in shelf.buckets]
    for node in need.excluded:
        _leave_out(shelf, counts, node)
    free = sum(cards * hosts for cards, hosts in enumerate(counts))
    if free < job.gpus:
        withheld = {why: n for why in _SAID_OF_CARDS if (n := shelf.withheld[why])}
        return reason(
            "Resources", what="gpus", model=outlook.model, free=free, asked=job.gpus, **withheld
        )
    return reason(
        "Fragmented",
        model=outlook.model,
        free=free,
        asked=job.gpus,
        nodes=need.nodes,
        per_node=need.gpus,
        most=max(cards for cards, hosts in enumerate(counts) if hosts),
        roomy=sum(counts[need.gpus :]),
        partly=sum(counts[1 : need.gpus]),
    )


def _leave_out(shelf: Shelf, counts: list[int], node: int) -> None:
    rank = shelf.rank_of.get(node)
    if rank is not None and rank in shelf.counts:
        counts[shelf.counts[rank]] -= 1


def _promised(blocked: list[Near]) -> Iterator[Reason]:
    """Yield a reason for each kind of promise in the way; it names the first moment to be left."""
    for kind, code in (
        ("job", "Priority"),
        ("reservation", "Reservation"),
        ("maintenance", "Maintenance"),
    ):
        found = [(near, one) for near in blocked for one in near.promised if one.kind == kind]
        if not found:
            continue
        at_s = minute_s(min(one.start_us for _, one in found))
        ids = ", ".join(str(id) for id in sorted({one.id for _, one in found})[:NAMED_JOBS])
        if kind == "job":
            yield reason(code, kept=1, ahead=len({one.id for _, one in found}), jobs=ids, at_s=at_s)
            continue
        nodes = sorted({near.host.node.name for near, _ in found})
        names = ", ".join(nodes[:NAMED_HOSTS])
        yield reason(code, bookings=ids, names=names, nodes=len(nodes), at_s=at_s)


def _side(outlook: Outlook, what: str) -> Reason:
    """Say which of CPU, RAM or disk a node lacks: the one nearest to having enough."""
    need = outlook.need

    def figures(host: Host) -> tuple[int, int]:
        return {
            "cpus": (host.cpus, need.cpus_on(host)),
            "memory": (host.memory_mib, need.memory_on(host)),
            "disk": (host.disk_gib, need.disk_gib),
        }[what]

    lacking = [near.host for near in outlook.nearest if what in near.lacks]
    host = min(lacking, key=lambda host: (figures(host)[1] - figures(host)[0], host.rank))
    free, asked = figures(host)
    return reason(
        "Resources",
        what=what,
        free=max(0, free),
        asked=asked,
        node=host.node.name,
        nodes=len(lacking),
        model=outlook.model,
    )
