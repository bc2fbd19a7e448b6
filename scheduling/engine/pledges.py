"""Quota over time: what teams will hold at the moments when kept room and bookings begin.

Owns the counts beside quota.py: a job that lasts beyond such a moment must leave the head's team
its quota too, or the room would be kept in vain. Never looks at nodes.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from .amounts import Amount, Who, who_of
from .lanes import minute_s
from .quota import Ledger
from .world import Job, Reason, Running, Use, World, reason

# Of the jobs that room is kept for, as many are cared for here: each has a ledger of its own.
MOST = 8


class _Charge(NamedTuple):
    start_us: int
    end_us: int
    team: int
    model: str
    amount: Amount
    who: Who


class _Point(NamedTuple):
    """A moment: a job that room is kept for starts, or (``job`` 0) a booking."""

    at_us: int
    job: int
    ledger: Ledger
    booking: int = 0


class Pledges:
    """The jobs that room is kept for, with the ledger as it will be when each of them starts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._charges: list[_Charge] = []
        self._points: list[_Point] = []
        self._kept: set[int] = set()
        ahead = [one for one in world.bookings if one.team and one.start_us > world.now_us]
        for booking in sorted(ahead, key=lambda one: (one.start_us, one.id))[:MOST]:
            self._look_after(booking.start_us, 0, booking.id)

    def charge(self, job: Job, model: str, amount: Amount, start_us: int, end_us: int) -> None:
        """Count what a job is charged over [start_us, end_us). Cost: O(MOST x depth)."""
        charge = _Charge(start_us, end_us, job.team, model, amount, who_of(job))
        self._charges.append(charge)
        for point in self._points:
            _count(point, charge)

    def keep(self, job: Job, model: str, amount: Amount, start_us: int, end_us: int) -> None:
        """Look after the quota of a job that room is kept for from ``start_us`` on."""
        self._kept.add(job.id)
        self.charge(job, model, amount, start_us, end_us)
        if len(self._kept) <= MOST:
            self._look_after(start_us, job.id)

    def keeper(self, job: Job) -> int:
        """Return the job's id if room is kept for it, else 0."""
        return job.id if job.id in self._kept else 0

    def blocks(self, job: Job, model: str, asked: Amount, end_us: int) -> list[Reason]:
        """Return Priority if a start now would take the quota of jobs that room is kept for."""
        if not self._points or job.id in self._kept:
            return []
        over = [
            point
            for point in self._points
            if point.at_us < end_us and point.ledger.blockers(job.team, model, asked, who_of(job))
        ]
        if not over:
            return []
        slots = [point for point in over if not point.job]
        if slots:
            first = min(slots, key=lambda point: (point.at_us, point.booking))
            return [reason("BookedQuota", booking=first.booking, at_s=minute_s(first.at_us))]
        ids = ", ".join(str(point.job) for point in over)
        at_s = minute_s(min(point.at_us for point in over))
        return [reason("Priority", kept=1, ahead=len(over), jobs=ids, at_s=at_s)]

    def _look_after(self, at_us: int, job: int, booking: int = 0) -> None:
        world = self._world
        if not world.limits:
            return  # nobody's quota can be in the way
        uses = (*world.uses, *self._given_back(at_us), *self._booked(at_us))
        point = _Point(at_us, job, Ledger(world.teams, world.limits, uses), booking)
        for charge in self._charges:
            _count(point, charge)
        self._points.append(point)

    @cached_property
    def _models(self) -> dict[int, str]:
        """The model of each card."""
        return {g.id: g.model for node in self._world.nodes for g in node.gpus}

    def _booked(self, at_us: int) -> Iterator[Use]:
        """Yield what bookings begin to hold by a moment, and as negative uses what they end."""
        now_us = self._world.now_us
        for one in self._world.bookings:
            sign = (one.start_us <= at_us < one.end_us) - (one.start_us <= now_us < one.end_us)
            for gpu in one.gpus if one.team and sign else ():
                yield Use(
                    one.team, self._models.get(gpu, ""), sign * 1000, 0, 0, sign * 1000, one.user
                )

    def _given_back(self, at_us: int) -> Iterator[Use]:
        """Yield, as negative uses, what runs now and will have ended by a moment."""
        ended = [one for one in self._world.running if _ended(one, at_us)]
        for one in ended:
            model = next((self._models[gpu] for gpu in one.gpus if gpu in self._models), "")
            milli = 0 if one.booked else -1000 * len(one.gpus)
            firm = 0 if one.preemptible else milli
            yield Use(one.team, model, milli, -one.cpus, -one.memory_mib, firm, one.user)


def _ended(one: Running, at_us: int) -> bool:
    return one.charged and one.ends_us is not None and one.ends_us <= at_us


def _count(point: _Point, charge: _Charge) -> None:
    if charge.start_us <= point.at_us < charge.end_us:
        point.ledger.charge(charge.team, charge.model, charge.amount, charge.who)
