"""What every node has free over time: running claims, bookings, and room kept for jobs that wait.

Owns the lanes (lanes.py) of a cycle and the promises on them. A claim of a running job ends by its
limit, or never if it has none; cards that failed or are withheld never come back here. It finds
nothing by itself: fit.py asks whether a start now would run into a promise, windows.py when a job
could start. A new thing that holds cards over time is one more claim in ``_claims_of``.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .lanes import FOREVER, Ask, Claim, Lane, lowest
from .world import Booking, Gpu, PartPlan, Running, World

# How long a claim that is past its end is thought to last still.
OVERDUE_US = 60_000_000
COMES_BACK = ("held", "releasing")
# As a booking: that of a job that leaves before any booking begins, if that is not too soon.
FILLER = -1
FILL_US = 900_000_000


class Promise(NamedTuple):
    """Cards of one node that are somebody's over [start_us, end_us): a booking's or a job's."""

    start_us: int
    end_us: int
    mask: int
    kind: str
    id: int


class Span(NamedTuple):
    """What a part asks of a node over time. ``booking``: it takes the cards of that one alone."""

    model: str
    card_memory_mib: int
    gpus: int
    cpus: int
    memory_mib: int
    disk_gib: int
    limit_us: int
    booking: int = 0
    keeper: int = 0
    capability: int = 0
    island: int = -1


class TimeLine:
    """The lanes of all nodes, built when first asked for. Cost then: O(claims on the node)."""

    def __init__(self, world: World) -> None:
        self.now_us = world.now_us
        self.promises: dict[int, list[Promise]] = defaultdict(list)
        self._starts: list[int] = []
        self._nodes = {node.id: node for node in world.nodes}
        self._cards: dict[int, tuple[Gpu, ...]] = {}
        self._masks: dict[tuple[int, str, int, int, int], int] = {}
        self._lanes: dict[int, dict[int, Lane]] = {}
        self._claims: dict[int, list[Claim]] = defaultdict(list)
        self._running: dict[int, list[Running]] = defaultdict(list)
        self._absent: set[Running] = set()
        self._built_so_far = 0
        self._slots: dict[tuple[int, int], int] = {}
        for claim in sorted(world.running, key=lambda one: (one.job, one.node)):
            self._running[claim.node].append(claim)
        if world.bookings:
            self._book(world)

    def lane(self, node: int, booking: int = 0) -> Lane:
        """Return the lane of a node as a job of that booking sees it (0: of none)."""
        lanes = self._lanes.get(node)
        if lanes is None:
            lanes = self._lanes[node] = {0: self._built(node, 0)}
        if booking and booking not in lanes:
            if not any(self._lets_in(claim, booking) for claim in self._claims[node]):
                return lanes[0]
            lanes[booking] = self._built(node, booking)
        return lanes[booking]

    def before_kept(self, node: int) -> Lane:
        """Return the lane of a node as it would be if room were kept for nobody."""
        lane = self.lane(node)
        if not any(claim.kept for claim in self._claims[node]):
            return lane
        return self._filled(node, (claim for claim in self._claims[node] if not claim.kept))

    def ask(self, node: int, span: Span) -> Ask:
        """Return a span in terms of the node's lane."""
        mask = self._mask_for(node, span)
        return Ask(mask, span.gpus, span.cpus, span.memory_mib, span.disk_gib, span.limit_us)

    def cards_now(self, node: int, span: Span) -> list[Gpu]:
        """Return all cards for a start now that runs into no promise; none when too few would.

        Those of least memory come first, then those whose turn it is.
        """
        mask = self.lane(node, span.booking).free_for(self.ask(node, span), self.now_us)
        return [gpu for bit, gpu in enumerate(self.cards(node)) if mask >> bit & 1]

    def take(self, part: PartPlan, limit_us: int) -> None:
        """Count a part that starts now. Cost: O(segments) once the node's lane is built."""
        end_us = min(self.now_us + limit_us, FOREVER)
        mask = self._mask_of(part.node, set(part.gpus))
        side = (part.cpus, part.memory_mib, part.disk_gib)
        self._add(part.node, Claim(self.now_us, end_us, mask, *side))

    def leave(self, claim: Running) -> None:
        """Think a running claim away, until it returns."""
        self._absent.add(claim)
        self._lanes.pop(claim.node, None)

    def come_back(self, claim: Running) -> None:
        """Count a running claim again that was thought away."""
        self._absent.discard(claim)
        self._lanes.pop(claim.node, None)

    def give(self, part: PartPlan, limit_us: int) -> None:
        """Undo one ``take`` of the same part and limit."""
        end_us = min(self.now_us + limit_us, FOREVER)
        mask = self._mask_of(part.node, set(part.gpus))
        side = (part.cpus, part.memory_mib, part.disk_gib)
        self._claims[part.node].remove(Claim(self.now_us, end_us, mask, *side))
        self._lanes.pop(part.node, None)

    def fill(self, node: int, start_us: int, span: Span) -> Claim:
        """Count a part from ``start_us`` on, for as long as its limit, and return its claim.

        Cards that are busy now go first: those free now stay for long jobs.
        """
        lane = self.lane(node, span.booking)
        free = lane.free_for(self.ask(node, span), start_us)
        late = free & ~lane.masks[0]
        mask = lowest(late, min(span.gpus, late.bit_count()))
        mask |= lowest(free & ~mask, span.gpus - mask.bit_count())
        end_us = min(start_us + span.limit_us, FOREVER)
        side = span.cpus, span.memory_mib, span.disk_gib
        claim = Claim(start_us, end_us, mask, *side, kept=True)
        self._add(node, claim)
        return claim

    def keep(self, node: int, start_us: int, span: Span, job: int) -> None:
        """Promise a job its part of a node, counted as by ``fill``."""
        claim = self.fill(node, start_us, span)
        self._promise(node, Promise(start_us, claim.end_us, claim.mask, "job", job))

    def in_the_way(self, node: int, span: Span) -> list[Promise]:
        """Return the promises a start now would run into on a node, the first to begin first."""
        end_us = min(self.now_us + span.limit_us, FOREVER)
        return sorted(
            promise
            for promise in self.promises.get(node, ())
            if promise.start_us < end_us and not _own(promise, span)
        )

    def unpromised(self, node: int, span: Span) -> int:
        """Return the cards of a node that would do and are nobody's while a start now lasts."""
        mask = self._mask_for(node, span)
        for promise in self.in_the_way(node, span):
            mask &= ~promise.mask
        return mask

    def free_now(self, node: int) -> int:
        """Return the cards of a node that nobody has now."""
        return self.lane(node).masks[0]

    def reach(self, limit_us: int) -> int:
        """Return the shortest limit with which a start now runs over the same promises' beginnings.

        Jobs of equal reach run into the same promises, wherever they are put.
        """
        passed = bisect_left(self._starts, min(self.now_us + limit_us, FOREVER))
        return self._starts[passed - 1] - self.now_us + 1 if passed else 0

    def starts(self) -> tuple[int, ...]:
        """Return the moments at which promises begin, ascending."""
        return tuple(self._starts)

    def cards(self, node: int) -> tuple[Gpu, ...]:
        """Return a node's cards in the order of their bits: small first, then by their turn."""
        if node not in self._cards:
            gpus = self._nodes[node].gpus
            self._cards[node] = tuple(sorted(gpus, key=_small_first))
        return self._cards[node]

    def _mask_for(self, node: int, span: Span) -> int:
        mask = self.mask(node, span.model, span.card_memory_mib, span.capability, span.island)
        return mask & self._slots.get((span.booking, node), 0) if span.booking > 0 else mask

    def mask(
        self, node: int, model: str, memory_mib: int, capability: int = 0, island: int = -1
    ) -> int:
        """Return the cards of a node that are of a kind; ``island`` -1 is any."""
        key = node, model, memory_mib, capability, island
        if key not in self._masks:
            self._masks[key] = sum(
                1 << bit
                for bit, gpu in enumerate(self.cards(node))
                if (gpu.model, island) in ((model, -1), (model, gpu.island))
                and gpu.memory_mib >= memory_mib
                and gpu.capability >= capability
            )
        return self._masks[key]

    def _built(self, node: int, booking: int) -> Lane:
        claims = self._claims[node]
        return self._filled(node, (c for c in claims if not self._lets_in(c, booking)))

    def _lets_in(self, claim: Claim, booking: int) -> bool:
        """Return whether a booking's claim is not in the way of a job of that booking."""
        if booking == FILLER:
            return claim.booking > 0 and claim.start_us >= self.now_us + FILL_US
        return booking > 0 and claim.booking == booking

    def _filled(self, node: int, claims: Iterable[Claim]) -> Lane:
        row = self._nodes[node]
        running = self._running[node]
        held = {gpu for one in running for gpu in one.gpus}
        usable = sum(
            1 << bit
            for bit, gpu in enumerate(self.cards(node))
            if gpu.free or (gpu.id in held and gpu.why_not in COMES_BACK)
        )
        lane = Lane(
            self.now_us,
            usable,
            row.cpus_free + sum(one.cpus for one in running),
            row.memory_free_mib + sum(one.memory_mib for one in running),
            row.disk_free_gib + sum(one.disk_gib for one in running),
        )
        # A lane that is built again is never of the version of an older one.
        self._built_so_far += 1
        lane.version = self._built_so_far << 32
        for claim in [*self._claims_of(node), *claims]:
            lane.claim(claim)
        return lane

    def _claims_of(self, node: int) -> Iterator[Claim]:
        """Yield the claims of the jobs that run on a node."""
        for one in self._running[node]:
            if one in self._absent:
                continue
            end_us = FOREVER if one.ends_us is None else one.ends_us
            if end_us <= self.now_us:
                end_us = self.now_us + OVERDUE_US
            mask = self._mask_of(node, set(one.gpus))
            yield Claim(self.now_us, end_us, mask, one.cpus, one.memory_mib, one.disk_gib)

    def _book(self, world: World) -> None:
        node_of = {gpu.id: node.id for node in world.nodes for gpu in node.gpus}
        for booking in sorted(world.bookings, key=lambda one: (one.start_us, one.id)):
            if booking.end_us > self.now_us:
                for node in sorted({node_of[gpu] for gpu in booking.gpus if gpu in node_of}):
                    self._book_on(node, booking)

    def _book_on(self, node: int, booking: Booking) -> None:
        mask = self._mask_of(node, set(booking.gpus))
        start_us, end_us = max(booking.start_us, self.now_us), booking.end_us
        self._slots[booking.id, node] = mask
        self._claims[node].append(Claim(start_us, end_us, mask, booking=booking.id))
        self._promise(node, Promise(start_us, end_us, mask, booking.kind, booking.id))

    def _promise(self, node: int, promise: Promise) -> None:
        self.promises[node].append(promise)
        at = bisect_left(self._starts, promise.start_us)
        if at == len(self._starts) or self._starts[at] != promise.start_us:
            self._starts.insert(at, promise.start_us)

    def _mask_of(self, node: int, ids: set[int]) -> int:
        return sum(1 << bit for bit, gpu in enumerate(self.cards(node)) if gpu.id in ids)

    def _add(self, node: int, claim: Claim) -> None:
        """Count a claim on every view of the node's lane that exists or will be built."""
        self._claims[node].append(claim)
        for lane in self._lanes.get(node, {}).values():
            lane.claim(claim)


def _own(promise: Promise, span: Span) -> bool:
    return promise.id == (span.keeper if promise.kind == "job" else span.booking)


def _small_first(gpu: Gpu) -> tuple[int, ...]:
    return gpu.memory_mib, *gpu.turn
