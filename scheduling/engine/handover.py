"""Cards on their way from those who leave to the jobs they are pledged to, in one cycle.

Owns what is kept for a pledge: its free cards, and of CPU, RAM and disk what those who leave will
not bring back; all of it is nobody else's, and charged to the job's team. Says which pledges fall.
It chooses neither cards nor victims: preempt.py does.
"""

from collections import defaultdict
from collections.abc import Iterator

from .amounts import Amount, who_of
from .quota import Ledger
from .shape import limit_of
from .stock import Stock
from .timeline import COMES_BACK
from .world import Fallen, Gpu, Job, PartPlan, Pledge, Reason, Running, World, reason

_NAMED = 3
Side = tuple[int, int, int]


class Handover:
    """What leaves, and what is ``kept`` for which job, while a cycle goes down the queue."""

    def __init__(self, world: World, stock: Stock, ledger: Ledger) -> None:
        """Set aside what is pledged. Cost: O(running claims + cards of pledges)."""
        self.fallen: list[Fallen] = []
        self._stock = stock
        self._ledger = ledger
        self._leaving: dict[int, list[Running]] = defaultdict(list)
        self._gone: dict[int, Running] = {}
        self._side: dict[int, Side] = defaultdict(lambda: (0, 0, 0))
        self.kept: dict[int, tuple[Job, Pledge, list[Side]]] = {}
        self._pledged: set[int] = set()
        for claim in sorted(world.running, key=lambda one: (one.attempt, one.job, one.node)):
            if claim.leaving:
                self.leave(claim)
        waiting = {job.id: job for job in world.jobs}
        for pledge in sorted(world.pledges, key=lambda one: one.job):
            job = waiting.get(pledge.job)
            why = self._broken(pledge) if job else "the job does not wait any more"
            if job is None or why:
                self.fallen.append(Fallen(pledge.job, why))
            else:
                self.keep(job, pledge)

    def leave(self, claim: Running) -> None:
        """Count on what a claim gives back."""
        self._leaving[claim.node].append(claim)
        self._gone.update(dict.fromkeys(claim.gpus, claim))
        self._side[claim.node] = _plus(self._side[claim.node], _side_of(claim))

    def keep(self, job: Job, pledge: Pledge) -> None:
        """Set a pledge's parts aside and charge the job's team."""
        lent: list[Side] = []
        for part in pledge.parts:
            here = self._side[part.node]
            back = _least(here, (part.cpus, part.memory_mib, part.disk_gib))
            self._side[part.node] = _minus(here, back)
            self._stock.time.take(part, limit_of(job))
            self._stock.hide(_less(part, back))
            self._pledged.update(part.gpus)
            lent.append(back)
        self.kept[job.id] = (job, pledge, lent)
        self._charge(job, pledge, 1)

    def let_go(self, job: int) -> Pledge:
        """Give a pledge's parts back to what is free."""
        holder, pledge, lent = self.kept.pop(job)
        for part, back in zip(pledge.parts, lent, strict=True):
            self._side[part.node] = _plus(self._side[part.node], back)
            self._stock.time.give(part, limit_of(holder))
            self._stock.give(_less(part, back, tuple(g for g in part.gpus if g not in self._gone)))
            self._pledged.difference_update(part.gpus)
        self._charge(holder, pledge, -1)
        return pledge

    def fall(self, job: int, why: str) -> None:
        """End the pledge of a job (let go before) for good."""
        self.fallen.append(Fallen(job, why))

    def is_complete(self, pledge: Pledge) -> bool:
        """Return whether nothing is on its way any more that a pledge could wait for.

        Victims that only held quota have no card in it, so all that is charged still counts.
        """
        cards = any(gpu in self._gone for part in pledge.parts for gpu in part.gpus)
        return not cards and not any(c.charged for some in self._leaving.values() for c in some)

    def coming(self, pool: int) -> Iterator[tuple[PartPlan, tuple[Running, ...]]]:
        """Yield what comes back on each node of a pool and is pledged to nobody."""
        for node in sorted(self._leaving):
            host = self._stock.by_id.get(node)
            if host is None or host.node.pool != pool:
                continue
            cards = [
                gpu
                for claim in self._leaving[node]
                for gpu in returning(host.node.gpus, claim)
                if gpu not in self._pledged
            ]
            yield (
                PartPlan(node, tuple(sorted(cards)), *self._side[node]),
                tuple(self._leaving[node]),
            )

    def leaves_us(self, job: int) -> int:
        """Return when the last of those whose cards a pledge waits for has left; 0 for nobody."""
        _, pledge, _ = self.kept[job]
        held = [self._gone[g] for part in pledge.parts for g in part.gpus if g in self._gone]
        return max((claim.leaves_us for claim in held), default=0)

    def awaited(self, job: int) -> Reason:
        """Return AwaitingPreemption: whose cards a pledge still waits for, where, until when."""
        _, pledge, _ = self.kept[job]
        cards = [(gpu, part.node) for part in pledge.parts for gpu in part.gpus]
        held = [(self._gone[gpu], node) for gpu, node in cards if gpu in self._gone]
        jobs = sorted({claim.job for claim, _ in held})
        names = sorted({self._stock.by_id[node].node.name for _, node in held})
        return reason(
            "AwaitingPreemption",
            gpus=len(held),
            kept=len(cards) - len(held),
            jobs=", ".join(str(one) for one in jobs[:_NAMED]),
            more_jobs=max(len(jobs) - _NAMED, 0),
            names=", ".join(names[:_NAMED]),
            more_nodes=max(len(names) - _NAMED, 0),
            by_s=max((-(-claim.leaves_us // 1_000_000) for claim, _ in held), default=0),
        )

    def _charge(self, job: Job, pledge: Pledge, sign: int) -> None:
        cpus = sum(part.cpus for part in pledge.parts)
        memory_mib = sum(part.memory_mib for part in pledge.parts)
        amount = Amount(sign * job.gpus * 1000, sign * cpus, sign * memory_mib)
        self._ledger.charge(job.team, pledge.model, amount, who_of(job))

    def _broken(self, pledge: Pledge) -> str:
        """Return why a pledge cannot be kept, or nothing."""
        for part in pledge.parts:
            host = self._stock.by_id.get(part.node)
            if host is None:
                return "its node is gone"
            if not host.node.accepts_work:
                return f"{host.node.name} takes no work ({host.node.why_not})"
            cards = {gpu.id: gpu for gpu in host.node.gpus}
            for id in part.gpus:
                why = self._lost(cards.get(id))
                if why:
                    return f"a card on {host.node.name} {why}"
        return ""

    def _lost(self, gpu: Gpu | None) -> str:
        if gpu is None:
            return "is gone"
        if gpu.free:
            return "is promised already" if gpu.id in self._pledged else ""
        if gpu.why_not in COMES_BACK:
            return "" if gpu.id in self._gone else "is held by a job that stays"
        return f"is {gpu.why_not}"


def returning(gpus: tuple[Gpu, ...], claim: Running) -> tuple[int, ...]:
    """Return the cards of a claim that are usable once it has left."""
    held = set(claim.gpus)
    return tuple(g.id for g in gpus if g.id in held and g.why_not in COMES_BACK)


def _side_of(claim: Running) -> Side:
    return claim.cpus, claim.memory_mib, claim.disk_gib


def _plus(one: Side, other: Side) -> Side:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _minus(one: Side, other: Side) -> Side:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]


def _least(one: Side, other: Side) -> Side:
    return min(one[0], other[0]), min(one[1], other[1]), min(one[2], other[2])


def _less(part: PartPlan, back: Side, gpus: tuple[int, ...] | None = None) -> PartPlan:
    side = _minus((part.cpus, part.memory_mib, part.disk_gib), back)
    return PartPlan(part.node, part.gpus if gpus is None else gpus, *side)
