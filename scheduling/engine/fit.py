"""Which cards: the tightest nodes for a job's equal parts, all of one model.

Pure questions over stock.py; knows nothing of queues or quotas beyond the CPU and RAM a team has
left (``Need``). A new hard constraint on a node is one line of ``short`` and of ``holds``; a new
preference is a term of ``Choice``'s key.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress

from .hosts import Host, Kind, Wanted
from .islands import picked, whole
from .lanes import FOREVER
from .sites import rack_of
from .stock import Bucket, Shelf, Stock
from .timeline import Span
from .world import Job, PartPlan

LACKS = ("gpus", "cpus", "memory", "disk", "team_cpus", "team_memory")


@dataclass(frozen=True, slots=True)
class Need:
    """What each of ``nodes`` nodes must give; None takes the node's share for each card.

    ``keeper`` is the job itself if room is kept for it: its own promise is not in its way.

    The caps are what a team may still take on each node, None without a limit.
    """

    gpus: int
    nodes: int
    cpus: int | None
    memory_mib: int | None
    disk_gib: int
    cpus_cap: int | None
    memory_cap_mib: int | None
    excluded: frozenset[int]
    limit_us: int = FOREVER
    booking: int = 0
    keeper: int = 0

    def cpus_on(self, room: Host | Kind) -> int:
        """Return the CPU cores this part takes on a node."""
        return room.share_cpus * self.gpus if self.cpus is None else self.cpus

    def memory_on(self, room: Host | Kind) -> int:
        """Return the MiB of RAM this part takes on a node."""
        return room.share_memory_mib * self.gpus if self.memory_mib is None else self.memory_mib


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """The nodes found for a job on one model; the smallest of several choices is the best.

    ``slack`` is how many more nodes a rack or block had to offer: small ones fill up first.
    ``nodes`` are sort keys (``Host.where``) in the order of ranks: neighbours are near.
    """

    racks: int
    leftover: int
    slack: int
    penalty: int
    nodes: tuple[tuple[str, str, str, int], ...]
    wanted: Wanted


def splits(job: Job) -> bool:
    """Return whether the cards divide into equal parts, and each part into whole TP groups."""
    if job.nodes < 1 or job.gpus < job.nodes or job.gpus % job.nodes:
        return False
    return job.tp <= 1 or job.gpus // job.nodes % job.tp == 0


def need_of(
    job: Job, cpus_left: int | None = None, memory_left_mib: int | None = None, keeper: int = 0
) -> Need:
    """Return what each node must give; totals and what a team has left are divided evenly."""
    return Need(
        gpus=job.gpus // job.nodes,
        nodes=job.nodes,
        cpus=_part(job.cpus, job.nodes),
        memory_mib=_part(job.memory_mib, job.nodes),
        disk_gib=job.disk_gib,
        cpus_cap=None if cpus_left is None else cpus_left // job.nodes,
        memory_cap_mib=None if memory_left_mib is None else memory_left_mib // job.nodes,
        excluded=job.excluded,
        limit_us=FOREVER if job.limit_us is None else job.limit_us,
        booking=job.booking,
        keeper=keeper,
    )


def short(room: Host | Kind, cards: int, need: Need) -> tuple[str, ...]:
    """Return what a node with ``cards`` usable cards lacks for one part; empty when it fits."""
    cpus, memory_mib = need.cpus_on(room), need.memory_on(room)
    lacking = (
        need.gpus > cards,
        cpus > room.cpus and cpus > 0,
        memory_mib > room.memory_mib and memory_mib > 0,
        need.disk_gib > room.disk_gib and need.disk_gib > 0,
        need.cpus_cap is not None and cpus > need.cpus_cap,
        need.memory_cap_mib is not None and memory_mib > need.memory_cap_mib,
    )
    return tuple(compress(LACKS, lacking)) if any(lacking) else ()


def tightest(stock: Stock, shelf: Shelf, need: Need) -> list[Host] | None:
    """Choose the nodes that the parts fill most tightly, or None when too few have room.

    Best fit: leaving the fewest free cards beside a part keeps whole nodes whole for large jobs.
    Ties go to the smaller penalty, then to the name that sorts first.

    Cost: the hosts looked at lie in the buckets with enough free cards; a bucket in which no
    host has the CPU, RAM or disk is passed over in one step.
    Source: best fit; D. S. Johnson, Near-Optimal Bin Packing Algorithms (MIT, 1973).
    """
    chosen: list[Host] = []
    for host in fitting(stock, shelf, need):
        chosen.append(host)
        if len(chosen) == need.nodes:
            return chosen
    return None


def fitting(stock: Stock, shelf: Shelf, need: Need) -> Iterator[Host]:
    """Yield the nodes that have room for a part, the tightest first."""
    promises = stock.time.promises
    for bucket in shelf.buckets[need.gpus :]:
        if not bucket.ranks or not _may_hold(bucket, need):
            continue
        found = False
        for rank in bucket.ranks:
            host = stock.hosts[rank]
            if host.node.id in need.excluded or not _holds(host, need):
                continue
            free = not need.booking and host.node.id not in promises
            if free or lasts(stock, host, shelf.wanted, need):
                found = True
                yield host
        if not found:
            bucket.tighten(stock.hosts)


Gather = Callable[[Stock, Shelf, Need], list[Host] | None]


def choose(stock: Stock, wanted: Wanted, need: Need, gather: Gather = tightest) -> Choice | None:
    """Return the best nodes for a job on one kind of card, comparable with those of other kinds.

    ``gather`` chooses among the nodes of one shelf.
    """
    shelf = stock.shelf(wanted)
    roomy = sum(len(bucket.ranks) for bucket in shelf.buckets[need.gpus :])
    if roomy < need.nodes:
        return None
    hosts = gather(stock, shelf, need)
    if hosts is None:
        return None
    return Choice(
        racks=len({rack_of(host.node) for host in hosts}),
        leftover=sum(shelf.counts[host.rank] - need.gpus for host in hosts),
        slack=roomy - need.nodes if wanted.place else 0,
        penalty=sum(host.node.penalty for host in hosts),
        nodes=tuple(sorted(host.where for host in hosts)),
        wanted=wanted,
    )


def parts_of(stock: Stock, choice: Choice, need: Need, tp: int) -> tuple[PartPlan, ...]:
    """Return the parts of a choice in rank order (block, rack, node name), with the cards named.

    On a node the fewest islands are used, and of them the tightest; groups of ``tp`` stay on one.
    Cards of least memory that suffices go first, then by index: large ones stay for who needs them.
    """
    hosts = [stock.by_id[node] for *_, node in choice.nodes]
    return tuple(
        PartPlan(
            node=host.node.id,
            gpus=_cards_of(stock, host, choice.wanted, need, tp),
            cpus=need.cpus_on(host),
            memory_mib=need.memory_on(host),
            disk_gib=need.disk_gib,
        )
        for host in hosts
    )


def span_of(host: Host, wanted: Wanted, need: Need) -> Span:
    """Return what a part asks of a node over time."""
    return Span(
        wanted.model,
        wanted.memory_mib,
        need.gpus,
        need.cpus_on(host),
        need.memory_on(host),
        need.disk_gib,
        need.limit_us,
        need.booking,
        need.keeper,
        wanted.capability,
        wanted.island,
    )


def lasts(stock: Stock, host: Host, wanted: Wanted, need: Need) -> bool:
    """Return whether a part that starts now ends before every promise on what it would use."""
    cards = stock.time.cards_now(host.node.id, span_of(host, wanted, need))
    return bool(cards) and whole(cards, wanted.unit) >= need.gpus


def _cards_of(stock: Stock, host: Host, wanted: Wanted, need: Need, tp: int) -> tuple[int, ...]:
    if need.booking or host.node.id in stock.time.promises:
        cards = stock.time.cards_now(host.node.id, span_of(host, wanted, need))
    else:
        cards = host.cards(wanted)
    return tuple(sorted(gpu.id for gpu in picked(cards, need.gpus, tp)))


def _part(total: int | None, nodes: int) -> int | None:
    return None if total is None else -(-total // nodes)


def _may_hold(bucket: Bucket, need: Need) -> bool:
    """Return False only when no host of the bucket can have what the part takes."""
    enough_cpus = need.gpus <= bucket.cpu_shares if need.cpus is None else need.cpus <= bucket.cpus
    enough_memory = (
        need.gpus <= bucket.memory_shares
        if need.memory_mib is None
        else need.memory_mib <= bucket.memory_mib
    )
    return enough_cpus and enough_memory and need.disk_gib <= bucket.disk_gib


def _holds(host: Host, need: Need) -> bool:
    """Say whether ``short`` would be empty for a host with cards enough; a hot path."""
    cpus, memory_mib = need.cpus_on(host), need.memory_on(host)
    return (
        (cpus <= host.cpus or cpus <= 0)
        and (memory_mib <= host.memory_mib or memory_mib <= 0)
        and (need.disk_gib <= host.disk_gib or need.disk_gib <= 0)
        and (need.cpus_cap is None or cpus <= need.cpus_cap)
        and (need.memory_cap_mib is None or memory_mib <= need.memory_cap_mib)
    )
