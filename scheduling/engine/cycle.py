"""The state of one cycle: what is free, what teams hold, and the step that places one job.

Owns the pairing of quota and fit; decides no order and words no reasons. Capacity and quota only
shrink inside a cycle, so a request that failed once is not tried again.
"""

from collections.abc import Iterable
from dataclasses import replace

from .amounts import UNLIMITED, Amount, who_of
from .fit import Need, choose, need_of, parts_of, span_of, splits
from .handover import Handover
from .hosts import Wanted
from .lanes import FOREVER, minute_s
from .levels import ANYWHERE, Levels, places, stages
from .never import never
from .outlook import Outlook, WayOut, could_ever, shortages
from .pledges import Pledges
from .quota import Ledger
from .shape import Shape, asked_of, charged_of, limit_of
from .shortage import kept, said
from .stock import Stock
from .timeline import FILLER, Span
from .windows import Slot, Windows
from .world import Job, PartPlan, Placement, Reason, World, reason


class Cycle:
    """What is still free and who holds what, while jobs are placed one after another."""

    def __init__(self, world: World) -> None:
        self.now_us = world.now_us
        self.stock = Stock(world)
        self.ledger = Ledger(world.teams, world.limits, world.uses)
        self.handover = Handover(world, self.stock, self.ledger)
        self.windows = Windows(self.stock)
        self._pledges = Pledges(world)
        self.levels = Levels(world, self.stock)
        self._loose: dict[tuple[Shape, int], bool] = {}
        self._bookings = {booking.id: booking for booking in world.bookings}
        # The least reach (see TimeLine) at which a shape had no place: more has none either.
        self._failed: dict[Shape, int] = {}
        self._outlooks: dict[tuple[Shape, int], list[Outlook]] = {}

    def place(self, job: Job) -> Placement | None:
        """Take the best place for a job and charge its team; None when it must wait."""
        pledged = job.id in self.handover.kept
        found = self._redeemed(job) if pledged else self.find(job)
        if found is None:
            return None
        model, parts = found
        for part in parts:
            self.stock.take(part, limit_of(job))
        cpus, memory_mib = sum(p.cpus for p in parts), sum(p.memory_mib for p in parts)
        amount = Amount(charged_of(job), cpus, memory_mib)
        self.ledger.charge(job.team, model, amount, who_of(job))
        self._pledges.charge(job, model, amount, self.now_us, self._end_us(job))
        return Placement(job.id, parts, self.levels.degraded(job, parts))

    def waits_for_room(self, job: Job) -> bool:
        """Return whether only room keeps a job from starting: its team may hold it, nodes could."""
        if not self.open(job):
            return False
        return any(could_ever(self.stock.shelf(wanted), need) for wanted, need in self._open(job))

    def needs(self, job: Job) -> list[tuple[Wanted, Need]]:
        """Return each kind of card a job could get, those its team may hold if any."""
        return self._open(job) or self.anywhere(job, self.stock.models(job))

    def when(self, job: Job, after_us: int = 0) -> Slot | None:
        """Return the first slot on the time line for a job its team may hold, None for never."""
        slots = [
            slot
            for wanted, need in self._open(job)
            if (slot := self.windows.first(wanted, need, after_us))
        ]
        return min(slots, default=None)

    def fill(self, job: Job, slot: Slot) -> None:
        """Count a slot as taken on the time line, promising it to nobody."""
        for node, span in self._spans(job, slot):
            self.stock.time.fill(node, slot.start_us, span)

    def promise(self, job: Job, slot: Slot) -> None:
        """Keep a slot for a job: its cards from the start of the slot, and the quota they take."""
        for node, span in self._spans(job, slot):
            self.stock.time.keep(node, slot.start_us, span, job.id)
        end_us = min(slot.start_us + limit_of(job), FOREVER)
        self._pledges.keep(job, slot.wanted.model, asked_of(job), slot.start_us, end_us)

    def find(self, job: Job) -> tuple[str, tuple[PartPlan, ...]] | None:
        """Return the model and parts of the best place for a job now, taking nothing.

        One that can be stopped may be put where a booking begins later: it is stopped before.
        """
        found = self._find(job)
        if found is None and job.preemptible and not job.booking:
            reach = self.stock.time.reach(limit_of(job))
            return self._find(replace(job, booking=FILLER)) if reach else None
        return found

    def _find(self, job: Job) -> tuple[str, tuple[PartPlan, ...]] | None:
        if not self.open(job):
            return None
        models = self._allowed(job)
        shape = self._shape(job, models)
        reach = self.stock.time.reach(limit_of(job))
        if shape in self._failed and self._failed[shape] <= reach:
            return None
        found = self._best(job, models)
        if found is None:
            self._failed[shape] = reach
        return found

    def search(self, job: Job) -> tuple[str, tuple[PartPlan, ...]] | None:
        """``find`` without the memory of what failed: for states in which more is free."""
        return self._best(job, self._allowed(job)) if self.open(job) else None

    def open(self, job: Job) -> bool:
        """Return whether a job may start at all now: its time has come and its cards divide."""
        free = not job.after and not job.after_lost
        return free and job.eligible_us <= self.now_us and splits(job)

    def in_slot(self, job: Job) -> Reason:
        """Return why a job does not start that runs in a booking alone."""
        slot = self._bookings.get(job.booking)
        if slot is None or slot.start_us > self.now_us:
            at_us = slot.start_us if slot else job.eligible_us
            return reason("SlotAhead", booking=job.booking, at_s=minute_s(at_us))
        booked = set(slot.gpus)
        free = sum(g.free for host in self.stock.hosts for g in host.node.gpus if g.id in booked)
        return reason(
            "SlotFull", booking=job.booking, cards=len(slot.gpus), free=free, asked=job.gpus
        )

    def shape(self, job: Job) -> Shape:
        """Return what jobs have in common that ask for the same, whatever their teams hold now."""
        return self._shape(job, self.stock.models(job))

    def blockers(self, job: Job) -> tuple[list[Reason], list[Reason]]:
        """Return why a job cannot start on what is left: quota reasons, then fit reasons.

        They are of the one model that the job is nearest to having, so together they are enough.
        """
        if not splits(job):
            return [], _sure(never(self.stock, job, ()))
        models = self.stock.models(job)
        outlooks = self._looked_at(job, models)
        if not outlooks:
            return [], _sure(never(self.stock, job, self._needs(job, models).items()))
        asked = asked_of(job)
        quotas = {
            look.model: list(self.ledger.blockers(job.team, look.model, asked, who_of(job)))
            for look in outlooks
        }
        # Outlooks come nearest first; a model the team may still have goes before any other.
        nearest = min(outlooks, key=lambda look: bool(quotas[look.model]))
        quota = quotas[nearest.model]
        quota += [why for why in self._over_shares(job, nearest) if why not in quota]
        fit = list(said(job, nearest, self._way_out(job, models, outlooks, nearest)))
        if not quota and not kept(fit):
            fit += self._pledges.blocks(job, nearest.model, asked, self._end_us(job))
        return quota, fit

    def _way_out(
        self, job: Job, models: tuple[str, ...], outlooks: list[Outlook], nearest: Outlook
    ) -> WayOut | None:
        """Return what there is to say of the level that a job's cards have to share, if any."""
        level = self.levels.of(job)[-1]
        if level == ANYWHERE:
            return None
        key = self._shape(job, models), self.stock.time.reach(limit_of(job))
        if key not in self._loose:
            self._loose[key] = self.find(replace(job, level="", required=False)) is not None
        same = [look for look in outlooks if look.model == nearest.model]
        return WayOut(level, self._loose[key], self.levels.next_us(job), tuple(same))

    def _allowed(self, job: Job) -> list[str]:
        """Return the models of which the job's team may have what it asks for."""
        asked = asked_of(job)
        return [
            model
            for model in self.stock.models(job)
            if not self.ledger.blockers(job.team, model, asked, who_of(job))
            and not self._pledges.blocks(job, model, asked, self._end_us(job))
        ]

    def _best(self, job: Job, models: list[str]) -> tuple[str, tuple[PartPlan, ...]] | None:
        needs = self._needs(job, models)
        for gather, kinds in stages(self.stock, job, models, self.levels.of(job)):
            choices = [
                choice
                for wanted in kinds
                if (choice := choose(self.stock, wanted, needs[wanted.model], gather))
            ]
            if choices:
                best = min(choices)
                model = best.wanted.model
                return model, parts_of(self.stock, best, needs[model], job.tp)
        return None

    def _redeemed(self, job: Job) -> tuple[str, tuple[PartPlan, ...]] | None:
        """Return a place for a job with a pledge, on its cards or any others; else keep them.

        A pledge of which nobody holds a card any more and that gives no place falls: something
        else keeps the job from starting.
        """
        pledge = self.handover.let_go(job.id)
        found = self.search(job)
        if found is None and not self.handover.is_complete(pledge):
            self.handover.keep(job, pledge)
            return None
        if found is None:
            self.handover.fall(job.id, "the job could not start on them")
        # More is free than when others of its shape failed.
        self._failed.clear()
        return found

    def _needs(self, job: Job, models: list[str] | tuple[str, ...]) -> dict[str, Need]:
        keeper = self._pledges.keeper(job)
        return {
            model: need_of(job, *self.ledger.ceiling(job.team, model), keeper) for model in models
        }

    def _open(self, job: Job) -> list[tuple[Wanted, Need]]:
        """Return what a job's team may have now and where, each with what a node must give."""
        asked = asked_of(job)
        models = self.stock.models(job)
        return self.anywhere(
            job, [m for m in models if not self.ledger.blockers(job.team, m, asked, who_of(job))]
        )

    def anywhere(self, job: Job, models: Iterable[str]) -> list[tuple[Wanted, Need]]:
        """Return each model in each place of the widest level that the job takes now."""
        if not splits(job):
            return []
        need, level = need_of(job), self.levels.of(job)[-1]
        return [(w, need) for model in models for w in places(self.stock, job, model, level)]

    def _spans(self, job: Job, slot: Slot) -> list[tuple[int, Span]]:
        hosts = [self.stock.by_id[node] for node in slot.nodes]
        return [(host.node.id, span_of(host, slot.wanted, need_of(job))) for host in hosts]

    def _end_us(self, job: Job) -> int:
        return min(self.now_us + limit_of(job), FOREVER)

    def _shape(self, job: Job, models: list[str] | tuple[str, ...]) -> Shape:
        capped = any(self.ledger.ceiling(job.team, model) != UNLIMITED for model in models)
        return Shape(
            tuple(self.stock.wanted(job, model) for model in models),
            self.levels.of(job),
            job.tp,
            job.gpus,
            job.nodes,
            job.cpus,
            job.memory_mib,
            job.disk_gib,
            job.excluded,
            job.team if capped else None,
            job.booking,
            self._pledges.keeper(job),
        )

    def _looked_at(self, job: Job, models: tuple[str, ...]) -> list[Outlook]:
        shape = self._shape(job, models), self.stock.time.reach(limit_of(job))
        if shape not in self._outlooks:
            needs = self._needs(job, models)
            level = self.levels.of(job)[-1]
            self._outlooks[shape] = shortages(
                self.stock,
                [
                    (wanted, needs[model])
                    for model in models
                    for wanted in places(self.stock, job, model, level)
                ],
            )
        return self._outlooks[shape]

    def _over_shares(self, job: Job, outlook: Outlook) -> tuple[Reason, ...]:
        """Return the limits that the nodes' shares would break; the largest part counts for all."""
        need = outlook.need
        cpus = [need.cpus_on(n.host) for n in outlook.nearest if "team_cpus" in n.lacks]
        memory_mib = [need.memory_on(n.host) for n in outlook.nearest if "team_memory" in n.lacks]
        over = Amount(0, max(cpus, default=0) * need.nodes, max(memory_mib, default=0) * need.nodes)
        return self.ledger.blockers(job.team, outlook.model, over, who_of(job))


def _sure(why: Reason | None) -> list[Reason]:
    return [why] if why else []
