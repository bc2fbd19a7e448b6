"""What is still free while a cycle thinks, kept so that a search need not walk all nodes.

Owns the only mutable values of the engine; they live for one cycle. A ``Shelf`` holds the nodes
that a kind of request may use, in buckets by how many of their cards are free, so the tightest
node is found from the front. It never chooses: fit.py does. A new thing to run out of is a field
of ``Host``, ``Kind`` and ``Bucket``.
"""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterator

from .hosts import Host, Wanted, make_of
from .lanes import FOREVER
from .sites import Sites
from .timeline import TimeLine
from .world import Job, Node, PartPlan, World

# More than any machine has: the memory of a card that does not exist, a share that costs nothing.
MANY = 1 << 62


class Bucket:
    """The hosts of a shelf with equally many free cards, and the most any of them has free.

    The maxima are upper bounds: they may be stale after a host left, never too small.
    """

    __slots__ = ("cpu_shares", "cpus", "disk_gib", "exact", "memory_mib", "memory_shares", "ranks")

    def __init__(self) -> None:
        self.ranks: list[int] = []
        self._clear()

    def add(self, host: Host) -> None:
        insort(self.ranks, host.rank)
        self._raise(host)

    def remove(self, rank: int) -> None:
        del self.ranks[bisect_left(self.ranks, rank)]
        self.exact = False

    def changed(self, host: Host) -> None:
        """Note that a host's CPU, RAM or disk changed while its free cards did not."""
        self.exact = False
        self._raise(host)

    def tighten(self, hosts: list[Host]) -> None:
        """Make the maxima exact again. Cost: one look at each host of the bucket."""
        if not self.exact:
            self._clear()
            for rank in self.ranks:
                self._raise(hosts[rank])

    def _clear(self) -> None:
        self.cpus = self.memory_mib = self.disk_gib = 0
        self.cpu_shares = self.memory_shares = 0
        self.exact = True

    def _raise(self, host: Host) -> None:
        self.cpus = max(self.cpus, host.cpus)
        self.memory_mib = max(self.memory_mib, host.memory_mib)
        self.disk_gib = max(self.disk_gib, host.disk_gib)
        self.cpu_shares = max(self.cpu_shares, _shares(host.cpus, host.share_cpus))
        self.memory_shares = max(
            self.memory_shares, _shares(host.memory_mib, host.share_memory_mib)
        )


class Shelf:
    """The nodes of one pool, model, memory and label wish; open ones in buckets, closed aside."""

    __slots__ = (
        "buckets",
        "census",
        "closed",
        "counts",
        "kinds",
        "rank_of",
        "wanted",
        "withheld",
    )

    def __init__(self, wanted: Wanted, hosts: list[Host]) -> None:
        self.wanted = wanted
        self.kinds = {host.rank: kind for host in hosts if (kind := host.kind(wanted)).cards}
        mine = [host for host in hosts if host.rank in self.kinds]
        self.counts = {host.rank: host.count(wanted) for host in mine if host.node.accepts_work}
        self.census = Counter(self.kinds.values())
        self.rank_of = {host.node.id: host.rank for host in mine}
        self.closed = sorted(
            (host for host in mine if not host.node.accepts_work),
            key=lambda host: (-host.count(wanted), host.rank),
        )
        most = max((kind.cards for kind in self.kinds.values()), default=0)
        self.buckets = [Bucket() for _ in range(most + 1)]
        self.withheld: Counter[str] = Counter()
        for host in mine:
            if host.rank in self.counts:
                self.buckets[self.counts[host.rank]].add(host)
                self._count_withheld(host.node)

    def refresh(self, host: Host) -> None:
        """Move a host to the bucket of what it has free now."""
        was, now = self.counts[host.rank], host.count(self.wanted)
        if was == now:
            self.buckets[was].changed(host)
            return
        self.buckets[was].remove(host.rank)
        self.buckets[now].add(host)
        self.counts[host.rank] = now

    def _count_withheld(self, node: Node) -> None:
        for gpu in node.gpus:
            if not gpu.free and gpu.model == self.wanted.model:
                self.withheld[gpu.why_not] += 1


class Stock:
    """Every node of a world with what is free on it, and the shelves asked for so far."""

    def __init__(self, world: World) -> None:
        """Rank the nodes by (penalty, name, id): the order of ties. Cost: O(n log n)."""
        nodes = sorted(world.nodes, key=lambda node: (node.penalty, node.name, node.id))
        self.hosts = [Host(rank, node) for rank, node in enumerate(nodes)]
        self.by_id = {host.node.id: host for host in self.hosts}
        self.time = TimeLine(world)
        self._shelves: dict[Wanted, Shelf] = {}
        self._standing: dict[int, list[Shelf]] = defaultdict(list)
        self.sites = Sites(world.nodes)
        self._capabilities: dict[tuple[int, str], int] = {}
        sizes: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for node in nodes:
            for gpu in node.gpus:
                sizes[node.pool][gpu.model].add(gpu.memory_mib)
                newest = self._capabilities.get((node.pool, gpu.model), 0)
                self._capabilities[node.pool, gpu.model] = max(newest, gpu.capability)
        self._sizes = {
            pool: {model: sorted(found) for model, found in sorted(models.items())}
            for pool, models in sizes.items()
        }

    def pools(self) -> tuple[int, ...]:
        """Return the ids of the pools that have cards, ascending."""
        return tuple(sorted(self._sizes))

    def models(self, job: Job) -> tuple[str, ...]:
        """Return the models a job could get: the one it names, else all of its pool."""
        return (job.gpu_model,) if job.gpu_model else self.models_of(job.pool)

    def models_of(self, pool: int) -> tuple[str, ...]:
        """Return the models of a pool's cards, sorted."""
        return tuple(self._sizes.get(pool, ()))

    def sizes_of(self, pool: int, model: str) -> list[int]:
        """Return the memory sizes (MiB) of a pool's cards of one model, ascending."""
        return self._sizes.get(pool, {}).get(model, [])

    def capability_of(self, pool: int, model: str) -> int:
        """Return the greatest compute capability of a pool's cards of one model, 0 for none."""
        return self._capabilities.get((pool, model), 0)

    def wanted(self, job: Job, model: str) -> Wanted:
        """Return the shelf key of a job on one model.

        The memory is raised to the next size that exists, so jobs that differ only in what no
        card tells apart share a shelf; label order means nothing.
        """
        sizes = self.sizes_of(job.pool, model)
        at = bisect_left(sizes, job.gpu_memory_mib)
        memory_mib = sizes[at] if at < len(sizes) else MANY
        labels = tuple(sorted(set(job.labels)))
        return Wanted(job.pool, model, memory_mib, labels, job.capability)

    def shelf(self, wanted: Wanted) -> Shelf:
        """Return the shelf for a wish, built when first asked. Cost then: O(cards)."""
        if wanted not in self._shelves:
            shelf = Shelf(wanted, list(self._in_reach(wanted)))
            self._shelves[wanted] = shelf
            for rank in shelf.counts:
                self._standing[rank].append(shelf)
        return self._shelves[wanted]

    def take(self, part: PartPlan, limit_us: int = FOREVER) -> None:
        """Take what a part uses off its node, on every shelf. Cost: O(shelves of the node)."""
        self.time.take(part, limit_us)
        self.hide(part)

    def hide(self, part: PartPlan) -> None:
        """Take what a part uses off its node as it is now; the time line does not hear of it."""
        host = self.by_id[part.node]
        gone = set(part.gpus)
        for cards in host.free.values():
            cards[:] = [gpu for gpu in cards if gpu.id not in gone]
        host.cpus -= part.cpus
        host.memory_mib -= part.memory_mib
        host.disk_gib -= part.disk_gib
        for shelf in self._standing[host.rank]:
            shelf.refresh(host)

    def give(self, part: PartPlan) -> None:
        """Give a node back what a part used, or lend it what somebody holds. Cost as ``take``."""
        host = self.by_id[part.node]
        back = set(part.gpus)
        for gpu in host.node.gpus:
            if gpu.id in back:
                insort(host.free[make_of(gpu)], gpu, key=lambda g: g.turn)
        host.cpus += part.cpus
        host.memory_mib += part.memory_mib
        host.disk_gib += part.disk_gib
        for shelf in self._standing[host.rank]:
            shelf.refresh(host)

    def _in_reach(self, wanted: Wanted) -> Iterator[Host]:
        labels = set(wanted.labels)
        hosts = self.hosts
        if wanted.place:
            ids = self.sites.nodes(wanted.pool, wanted.place)
            hosts = sorted((self.by_id[id] for id in ids), key=lambda host: host.rank)
        for host in hosts:
            if host.node.pool == wanted.pool and labels <= set(host.node.labels):
                yield host


def _shares(free: int, share: int) -> int:
    """Return for how many cards ``free`` is enough, at a node's share for each card."""
    return free // share if share else MANY
