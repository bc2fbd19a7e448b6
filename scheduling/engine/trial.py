"""What if they left: one simulation of free, leaving and victims' cards, CPU, RAM, disk and quota.

Owns the lending and calling back of what others hold; asks the same search that places jobs. A
trial changes nothing for good: ``close`` leaves the cycle as it was.
"""

from .cycle import Cycle
from .handover import returning
from .quota import Amount, who_of
from .victims import Victim
from .world import Job, PartPlan, Running


class Trial:
    """A cycle's state with all that leaves in one pool lent out, and victims as they are tried."""

    def __init__(self, cycle: Cycle, job: Job) -> None:
        """Lend what leaves and is pledged to nobody. Cost: O(leaving claims of the pool)."""
        self.job = job
        self._cycle = cycle
        self._lent: set[int] = set()
        self._coming = list(cycle.handover.coming(job.pool))
        for part, claims in self._coming:
            cycle.stock.give(part)
            for claim in claims:
                self._absent(claim)

    def close(self, victims: list[Victim]) -> None:
        """Call everything back: the victims that are still lent, then what leaves."""
        for victim in victims:
            self.recall(victim)
        for part, claims in self._coming:
            self._cycle.stock.hide(part)
            for claim in claims:
                self._present(claim)

    def lend(self, victim: Victim) -> None:
        """Think a victim away. Cost: O(its parts x shelves of a node)."""
        self._lent.add(victim.attempt)
        for claim in victim.parts:
            self._cycle.stock.give(self._part(claim))
            self._absent(claim)

    def recall(self, victim: Victim) -> None:
        """Undo ``lend``."""
        if victim.attempt in self._lent:
            self._lent.discard(victim.attempt)
            for claim in victim.parts:
                self._cycle.stock.hide(self._part(claim))
                self._present(claim)

    def find(self) -> tuple[str, tuple[PartPlan, ...]] | None:
        """Return the model and parts of the best place for the job as things are lent now."""
        return self._cycle.search(self.job)

    def free_on(self, node: int) -> int:
        """Return how many cards of a node the job could use as things are lent now."""
        host = self._cycle.stock.by_id[node]
        return sum(
            len(gpus)
            for make, gpus in host.free.items()
            if self.job.gpu_model in ("", make.model)
            and make.memory_mib >= self.job.gpu_memory_mib
            and make.capability >= self.job.capability
        )

    def _part(self, claim: Running) -> PartPlan:
        host = self._cycle.stock.by_id[claim.node]
        cards = returning(host.node.gpus, claim)
        return PartPlan(claim.node, cards, claim.cpus, claim.memory_mib, claim.disk_gib)

    def _absent(self, claim: Running) -> None:
        self._cycle.stock.time.leave(claim)
        self._charge(claim, -1)

    def _present(self, claim: Running) -> None:
        self._cycle.stock.time.come_back(claim)
        self._charge(claim, 1)

    def _charge(self, claim: Running, sign: int) -> None:
        """Count a claim out of its team, or in again, as it is counted now."""
        if not claim.charged:
            return
        gpus = self._cycle.stock.by_id[claim.node].node.gpus
        model = next((gpu.model for gpu in gpus if gpu.id in claim.gpus), "")
        milli = sign * 1000 * len(claim.gpus)
        amount = Amount(milli, sign * claim.cpus, sign * claim.memory_mib)
        self._cycle.ledger.charge(claim.team, model, amount, who_of(claim))
