"""May this team hold more? Owns the count of what every team of the tree holds in a cycle.

Each team has a nominal (an inner team's is the total of its subtree), may borrow above it what
others do not use, and may keep part of its nominal from being lent. One rule does all of it: in
every team above, a child counts as what it holds, but never as less than what it keeps. Work
that cannot be taken back is counted a second time, as if nobody lent anything: so whatever a
team was promised can be given back to it by taking back only work that may be taken back.

Never looks at nodes. A request that names no model is asked here once for each model it could
get, so it cannot slip past a limit on one model. A charge of negative amounts takes one back.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from .amounts import SOMEBODY, UNLIMITED, Amount, Ceiling, Who
from .budgets import blocks
from .tree import Tree
from .world import Limit, Reason, Team, Use, reason


class Ledger:
    """What each team's subtree holds, against its limits; charged as the cycle places jobs."""

    def __init__(
        self, teams: Iterable[Team], limits: Iterable[Limit], uses: Iterable[Use] = ()
    ) -> None:
        """Count the uses into every team up the tree.

        Cost: O(teams x models with limits + uses x depth).
        """
        self._tree = Tree(teams)
        self._limits = {(limit.team, limit.gpu_model): limit for limit in limits}
        self._models: dict[int, list[str]] = defaultdict(list)
        for link, model in sorted(self._limits):
            self._models[link].append(model)
        self._held: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._counted: dict[tuple[int, str], int] = defaultdict(int)
        self._firm: dict[tuple[int, str], int] = defaultdict(int)
        self._users: dict[tuple[int, str, str], int] = defaultdict(int)
        self._caps_sides = any(
            one.cpus is not None or one.memory_mib is not None for one in self._limits.values()
        )
        self._counts_users = any(one.user_milli is not None for one in self._limits.values())
        self._answers: dict[tuple[int, str, Amount, Who], tuple[Reason, ...]] = {}
        self._keeps = {at: _keeps(one) for at, one in self._limits.items() if one.nominal_milli}
        self._firm_most = {at: self._most_of_firm(one) for at, one in self._limits.items()}
        self._set_aside()
        for use in uses:
            amount = Amount(use.milli, use.cpus, use.memory_mib)
            firm = Amount(use.firm_milli, 0, 0)
            self._add(use.team, use.gpu_model, amount, firm, use.user)

    def charge(self, team: int, gpu_model: str, amount: Amount, who: Who = SOMEBODY) -> None:
        """Add an amount to a leaf team and to every team above it. Cost: O(depth)."""
        firm = amount if who.firm else Amount(0, 0, 0)
        self._add(team, gpu_model, amount, firm, who.user)

    def blockers(
        self, team: int, gpu_model: str, asked: Amount, who: Who = SOMEBODY
    ) -> tuple[Reason, ...]:
        """Return a reason for each limit up the tree that ``asked`` would break.

        Cost: O(depth x limits of a team); asked again before the next charge, O(1).
        """
        if not self._limits:
            return ()
        who = Who(who.user if self._counts_users else "", who.firm)
        key = team, gpu_model, asked, who
        if key not in self._answers:
            self._answers[key] = tuple(self._blockers(team, gpu_model, asked, who))
        return self._answers[key]

    def ceiling(self, team: int, gpu_model: str) -> Ceiling:
        """Return what the team may still take of CPU and memory with cards of this model."""
        ceiling = UNLIMITED
        if not self._caps_sides:
            return ceiling
        for limit in self._limits_of(team, gpu_model):
            if limit.cpus is None and limit.memory_mib is None:
                continue
            _, cpus, memory_mib = self._held[limit.team, limit.gpu_model]
            ceiling = Ceiling(
                _lower(ceiling.cpus, limit.cpus, cpus),
                _lower(ceiling.memory_mib, limit.memory_mib, memory_mib),
            )
        return ceiling

    def is_owed(self, team: int, gpu_model: str, milli: int) -> bool:
        """Return whether ``milli`` more is within the nominal of the team or of one above it."""
        return any(
            0 < limit.nominal_milli >= self._held[limit.team, limit.gpu_model][0] + milli
            for limit in self._limits_of(team, gpu_model)
        )

    def apart(self, one: int, other: int) -> tuple[list[int], list[int]]:
        """Return the ways up from two teams to below the nearest team above both."""
        return self._tree.apart(one, other)

    def held_of(self, team: int, gpu_model: str) -> list[tuple[int, int]]:
        """Return (milli held, nominal milli) for each quota of a team that a model counts in.

        Without any, it is what the team holds in all against 0.
        """
        rows = [self._limits[team, m] for m in ("", gpu_model) if (team, m) in self._limits]
        if not rows:
            return [(self._held[team, ""][0], 0)]
        return [(self._held[team, row.gpu_model][0], row.nominal_milli) for row in rows]

    def _set_aside(self) -> None:
        """Count for every team what those below it keep or are owed, before anybody holds it."""
        if not self._keeps:
            return
        for model in sorted({model for _, model in self._limits}):
            for team in self._tree.deepest_first():
                above = self._tree.chain(team)[1:2]
                for link in above:
                    kept, owed = self._keeps.get((team, model), (0, 0))
                    self._counted[link, model] += max(self._counted[team, model], kept)
                    self._firm[link, model] += max(self._firm[team, model], owed)

    def _add(self, team: int, gpu_model: str, amount: Amount, firm: Amount, user: str) -> None:
        self._answers.clear()
        # A use of no known model counts once, in the total.
        for model in {gpu_model, ""}:
            self._users[team, model, user] += amount.milli
            counted, owed = amount.milli, firm.milli
            for link in self._tree.chain(team):
                held = self._held[link, model]
                for i, value in enumerate(amount):
                    held[i] += value or 0
                above = counted, owed
                if (link, model) in self._keeps:
                    above = self._growth(link, model, counted, owed)
                self._counted[link, model] += counted
                self._firm[link, model] += owed
                counted, owed = above

    def _growth(self, link: int, model: str, counted: int, firm: int) -> tuple[int, int]:
        """Return by how much the team above counts more when ``link`` counts so much more."""
        kept, owed = self._keeps[link, model]
        before, before_firm = self._counted[link, model], self._firm[link, model]
        return (
            max(before + counted, kept) - max(before, kept),
            max(before_firm + firm, owed) - max(before_firm, owed),
        )

    def _blockers(self, team: int, gpu_model: str, asked: Amount, who: Who) -> Iterator[Reason]:
        for model in ("", gpu_model) if gpu_model else ("",):
            counted = firm = asked.milli
            below: int | None = None
            for link in self._tree.chain(team):
                limit = self._limits.get((link, model))
                if limit is not None:
                    yield from self._over_gpus(limit, below, (counted, firm), who)
                    if limit.budget is not None and asked.milli > 0:
                        yield from blocks(limit, self._tree.name(link))
                    if limit.cpus is not None or limit.memory_mib is not None:
                        yield from self._over_sides(limit, asked)
                    if below is None and limit.user_milli is not None:
                        yield from self._over_own(limit, asked.milli, who)
                if (link, model) in self._keeps:
                    counted, firm = self._growth(link, model, counted, firm)
                below = link

    def _over_gpus(
        self, limit: Limit, below: int | None, more: tuple[int, int], who: Who
    ) -> Iterator[Reason]:
        """Yield that the cards would be too many, counted with what others keep or are owed."""
        at, most = (limit.team, limit.gpu_model), limit.milli
        spared, firm_most = 0, self._firm_most[at]
        if most is not None and more[0] > 0 and self._counted[at] + more[0] > most:
            facts, code = self._lent(limit, below), "QuotaLimit"
            if facts:
                owed = facts["own"] + more[0] <= facts["nominal"]
                code = "QuotaNominal" if owed else "QuotaBorrow"
            yield self._told(limit, code, "gpus", self._counted[at], more[0], **facts)
            # One limit is told once, where it binds all work alike.
            spared = self._counted[at] + more[0] if most == firm_most else 0
        if firm_most is None or not who.firm or more[1] <= 0:
            return
        if self._firm[at] + more[1] > max(firm_most, spared):
            told = {"most": firm_most, **self._lent(limit, below), "firm": 1}
            yield self._told(limit, "QuotaBorrow", "gpus", self._firm[at], more[1], **told)

    def _most_of_firm(self, limit: Limit) -> int | None:
        """Return the most of work that cannot be taken back: above a topmost nominal none is."""
        above = self._tree.chain(limit.team)[1:]
        topmost = not any((link, limit.gpu_model) in self._keeps for link in above)
        return limit.nominal_milli if limit.nominal_milli and topmost else limit.milli

    def _lent(self, limit: Limit, below: int | None) -> dict[str, int]:
        """Return what the team under a limit has of its own: it is lent out, or it borrows."""
        own = self._limits.get((below, limit.gpu_model)) if below is not None else None
        if own is None or own.nominal_milli == 0:
            return {}
        return {
            "below_id": own.team,
            "nominal": own.nominal_milli,
            "own": self._held[own.team, own.gpu_model][0],
        }

    def _over_sides(self, limit: Limit, asked: Amount) -> Iterator[Reason]:
        _, cpus, memory_mib = self._held[limit.team, limit.gpu_model]
        for what, most, held, more in (
            ("cpus", limit.cpus, cpus, asked.cpus or 0),
            ("memory", limit.memory_mib, memory_mib, asked.memory_mib or 0),
        ):
            if most is not None and more > 0 and held + more > most:
                yield self._told(limit, "QuotaLimit", what, held, more, most=most)

    def _over_own(self, limit: Limit, milli: int, who: Who) -> Iterator[Reason]:
        """Yield that one person of the team would hold too much of it."""
        held = self._users[limit.team, limit.gpu_model, who.user]
        most = limit.user_milli
        if who.user and most is not None and milli > 0 and held + milli > most:
            yield self._told(limit, "UserLimit", "gpus", held, milli, most=most)

    def _told(
        self,
        limit: Limit,
        code: str,
        what: str,
        held: int,
        asked: int,
        *,
        most: int | None = None,
        **facts: int,
    ) -> Reason:
        words = {"below": self._tree.name(facts["below_id"])} if "below_id" in facts else {}
        return reason(
            code,
            team=self._tree.name(limit.team),
            team_id=limit.team,
            model=limit.gpu_model,
            what=what,
            unit=_UNITS[what],
            limit=(limit.milli or 0) if most is None else most,
            held=held,
            asked=asked,
            **facts,
            **words,
        )

    def _limits_of(self, team: int, gpu_model: str) -> Iterator[Limit]:
        for link in self._tree.chain(team):
            for model in self._models.get(link, ()):
                if model in ("", gpu_model):
                    yield self._limits[link, model]


def _keeps(limit: Limit) -> tuple[int, int]:
    """Return (what the team never lends, what it is owed) of a model."""
    lent = limit.nominal_milli if limit.lending_milli is None else limit.lending_milli
    return max(0, limit.nominal_milli - lent), limit.nominal_milli


_UNITS = {"gpus": "milli", "cpus": "cores", "memory": "mib"}


def _lower(now: int | None, most: int | None, held: int) -> int | None:
    if most is None:
        return now
    left = max(0, most - held)
    return left if now is None else min(now, left)
