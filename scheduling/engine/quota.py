"""May this team hold more? Owns the count of what every team of the tree holds in a cycle.

Never looks at nodes. A request that names no model is asked here once for each model it could
get, so it cannot slip past a limit on one model. A new kind of limit is one more ``Amount``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .world import Limit, Reason, Team, Use, reason


class Amount(NamedTuple):
    """What is asked of a team or held by it; None: not known before the node is."""

    milli: int
    cpus: int | None
    memory_mib: int | None


class Ceiling(NamedTuple):
    """What a team may still take of CPU and memory; None: no limit."""

    cpus: int | None
    memory_mib: int | None


UNLIMITED = Ceiling(None, None)
_WHAT = (("gpus", "milli"), ("cpus", "cores"), ("memory", "mib"))


class Ledger:
    """What each team's subtree holds, against its limits; charged as the cycle places jobs."""

    def __init__(
        self, teams: Iterable[Team], limits: Iterable[Limit], uses: Iterable[Use] = ()
    ) -> None:
        """Count the uses into every team up the tree. Cost: O(teams + limits + uses x depth)."""
        self._teams = {team.id: team for team in teams}
        self._limits: dict[int, list[Limit]] = defaultdict(list)
        for limit in sorted(limits, key=lambda limit: (limit.team, limit.gpu_model)):
            self._limits[limit.team].append(limit)
        self._held: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._chains: dict[int, tuple[int, ...]] = {}
        for use in uses:
            self.charge(use.team, use.gpu_model, Amount(use.milli, use.cpus, use.memory_mib))

    def charge(self, team: int, gpu_model: str, amount: Amount) -> None:
        """Add an amount to a leaf team and to every team above it."""
        for link in self._chain(team):
            # A use of no known model counts once, in the total.
            for model in {gpu_model, ""}:
                held = self._held[link, model]
                for i, value in enumerate(amount):
                    held[i] += value or 0

    def blockers(self, team: int, gpu_model: str, asked: Amount) -> tuple[Reason, ...]:
        """Return one QuotaLimit for each limit up the tree that ``asked`` would break.

        Cost: O(depth x limits of a team).
        """
        return tuple(
            self._over(limit, what, unit, held, most, more)
            for limit in self._limits_of(team, gpu_model)
            for (what, unit), held, most, more in zip(
                _WHAT,
                self._held[limit.team, limit.gpu_model],
                (limit.milli, limit.cpus, limit.memory_mib),
                asked,
                strict=True,
            )
            if most is not None and more is not None and more > 0 and held + more > most
        )

    def ceiling(self, team: int, gpu_model: str) -> Ceiling:
        """Return what the team may still take of CPU and memory with cards of this model."""
        ceiling = UNLIMITED
        for limit in self._limits_of(team, gpu_model):
            if limit.cpus is None and limit.memory_mib is None:
                continue
            _, cpus, memory_mib = self._held[limit.team, limit.gpu_model]
            ceiling = Ceiling(
                _lower(ceiling.cpus, limit.cpus, cpus),
                _lower(ceiling.memory_mib, limit.memory_mib, memory_mib),
            )
        return ceiling

    def _limits_of(self, team: int, gpu_model: str) -> Iterator[Limit]:
        for link in self._chain(team):
            for limit in self._limits.get(link, ()):
                if limit.gpu_model in ("", gpu_model):
                    yield limit

    def _chain(self, team: int) -> tuple[int, ...]:
        if team not in self._chains:
            chain: list[int] = []
            link: int | None = team
            # A ring of parents is bad data, not a reason to hang the cycle.
            while link is not None and link not in chain:
                chain.append(link)
                above = self._teams.get(link)
                link = above.parent if above else None
            self._chains[team] = tuple(chain)
        return self._chains[team]

    def _over(self, limit: Limit, what: str, unit: str, held: int, most: int, more: int) -> Reason:
        team = self._teams.get(limit.team)
        return reason(
            "QuotaLimit",
            team=team.name if team else str(limit.team),
            team_id=limit.team,
            model=limit.gpu_model,
            what=what,
            unit=unit,
            limit=most,
            held=held,
            asked=more,
        )


def _lower(now: int | None, most: int | None, held: int) -> int | None:
    if most is None:
        return now
    left = max(0, most - held)
    return left if now is None else min(now, left)
