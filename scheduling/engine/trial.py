"""What if they left: one simulation of free, leaving and victims' cards, CPU, RAM, disk and quota.

Owns the lending and calling back of what others hold; asks the same search that places jobs. A
trial changes nothing for good: ``close`` leaves the cycle as it was.
"""

from .amounts import Amount, who_of
from .cycle import Cycle
from .fit import need_of
from .handover import returning
from .hosts import Make
from .lending import gives_back
from .victims import Victim
from .world import Gpu, Job, PartPlan, Running


class Trial:
    """A cycle's state with all that leaves in one pool lent out, and victims as they are tried."""

    def __init__(self, cycle: Cycle, job: Job) -> None:
        """Lend what leaves and is pledged to nobody. Cost: O(leaving claims of the pool)."""
        self.job = job
        self._cycle = cycle
        self._need = need_of(job)
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

    def borrows(self, claim: Running) -> bool:
        """Return whether a claim is held above its team's nominal and owed to the job's team."""
        model = self._model(claim)
        milli = self.job.gpus * 1000
        return (
            claim.team != self.job.team
            and self.job.gpu_model in ("", model)
            and gives_back(self._cycle.ledger, claim.team, model, self.job.team, milli)
        )

    def lend_if_allowed(self, victim: Victim) -> bool:
        """Think a victim away, beside those that are, if it may be taken from its team.

        A borrower may be while its team still holds more than its nominal. By priority nobody is
        stopped whose team would then be owed cards by the job's: it would have them back at once.
        """
        claim, by_priority = victim.parts[0], victim.why != "reclaim"
        if not by_priority and not self.borrows(claim):
            return False
        self.lend(victim)
        if by_priority and self.job.preemptible and self._would_owe(claim):
            self.recall(victim)
            return False
        return True

    def _would_owe(self, claim: Running) -> bool:
        """Return whether the job, once it runs, would hold what a claim's team has lost to it."""
        ledger, job, model = self._cycle.ledger, self.job, self._model(claim)
        return gives_back(ledger, job.team, model, claim.team, 1, more=job.gpus * 1000)

    def could_hold(self, node: int) -> bool:
        """Return whether a node has room for a part of the job once nothing runs there."""
        host, need = self._cycle.stock.by_id[node], self._need
        return (
            host.node.accepts_work
            and node not in need.excluded
            and need.gpus <= sum(self._suits(gpu) for gpu in host.node.gpus)
            and need.cpus_on(host) <= host.node.cpus
            and need.memory_on(host) <= host.node.memory_mib
            and need.disk_gib <= host.node.disk_gib
        )

    def free_on(self, node: int) -> int:
        """Return how many cards of a node the job could use as things are lent now."""
        host = self._cycle.stock.by_id[node]
        return sum(len(gpus) for make, gpus in host.free.items() if self._suits(make))

    def _suits(self, made: Gpu | Make) -> bool:
        return (
            self.job.gpu_model in ("", made.model)
            and made.memory_mib >= self.job.gpu_memory_mib
            and made.capability >= self.job.capability
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
        model = self._model(claim)
        milli = sign * 1000 * len(claim.gpus)
        amount = Amount(milli, sign * claim.cpus, sign * claim.memory_mib)
        self._cycle.ledger.charge(claim.team, model, amount, who_of(claim))

    def _model(self, claim: Running) -> str:
        gpus = self._cycle.stock.by_id[claim.node].node.gpus
        return next((gpu.model for gpu in gpus if gpu.id in claim.gpus), "")
