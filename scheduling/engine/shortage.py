"""Why a job has no place: what is short on the nodes nearest to holding it, with numbers.

Puts an outlook into reasons. The truth of an answer is by construction: giving back just what it
names (a card with its share of the node) makes room. A new constraint of ``fit.short`` needs a line
in ``said``.
"""

from collections.abc import Iterable, Iterator

from .fit import Need
from .hosts import Host
from .lanes import minute_s
from .outlook import Near, Outlook, WayOut
from .stock import Shelf
from .world import Job, Reason, reason

NAMED_HOSTS = 3
NAMED_JOBS = 5
# Cards that are held are not told: that is what waiting means.
_SAID_OF_CARDS = ("degraded", "failed", "foreign", "quarantined", "releasing")


def said(job: Job, outlook: Outlook, way: WayOut | None = None) -> tuple[Reason, ...]:
    """Return the reasons of an outlook, what blocks first; team CPU and RAM are not said here.

    ``way`` is given for a job whose cards have to share a level.
    """
    lacks = {what for near in outlook.nearest for what in near.lacks}
    reasons: list[Reason] = []
    if any(near.away for near in outlook.nearest):
        reasons.append(_unavailable(outlook, [n for n in outlook.nearest if n.away]))
    if way and ("gpus" in lacks or (lacks and way.loose)):
        reasons.append(_together(job, outlook, way))
    elif "gpus" in lacks:
        reasons.append(_cards(job, outlook))
    for what in ("cpus", "memory", "disk"):
        if what in lacks:
            reasons.append(_side(outlook, what))
    reasons += _promised([near for near in outlook.nearest if near.promised])
    # Nodes that are closed but have room are a second way out, so they are told too.
    if outlook.apart:
        reasons.append(_unavailable(outlook, outlook.apart))
    return tuple(reasons)


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


def _together(job: Job, outlook: Outlook, way: WayOut) -> Reason:
    """Say how much is free in one place of the level that the cards have to share."""
    need = outlook.need
    found = [_counts(look.shelf, need) for look in way.outlooks]
    free = [sum(cards * hosts for cards, hosts in enumerate(counts)) for counts in found]
    if way.level == "island":
        free = [max((cards for cards, n in enumerate(counts) if n), default=0) for counts in found]
    return reason(
        "Topology",
        level=way.level,
        model=outlook.model,
        asked=job.gpus,
        nodes=need.nodes,
        per_node=need.gpus,
        most=max(free),
        roomy=max(sum(counts[need.gpus :]) for counts in found),
        loose=int(way.loose),
        next_s=-(-way.next_us // 1_000_000),
    )


def _counts(shelf: Shelf, need: Need) -> list[int]:
    """Return how many open nodes have 0, 1, 2, … free cards, without those left out."""
    counts = [len(bucket.ranks) for bucket in shelf.buckets]
    for node in need.excluded:
        _leave_out(shelf, counts, node)
    return counts


def _cards(job: Job, outlook: Outlook) -> Reason:
    shelf, need = outlook.shelf, outlook.need
    counts = _counts(shelf, need)
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


def kept(fit: Iterable[Reason]) -> bool:
    """Return whether some of what a job would take is kept for a job ahead: it says who that is."""
    return any(("kept", 1) in why.numbers for why in fit)
