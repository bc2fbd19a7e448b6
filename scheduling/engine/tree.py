"""The tree of teams: who is above whom. Never looks at what anybody holds."""

from collections.abc import Iterable

from .world import Team


class Tree:
    """Teams by id, with the way from each to its root. Cost: O(depth) a team, once."""

    def __init__(self, teams: Iterable[Team]) -> None:
        self._teams = {team.id: team for team in teams}
        self._chains: dict[int, tuple[int, ...]] = {}

    def chain(self, team: int) -> tuple[int, ...]:
        """Return the team and every team above it, the root last; a ring of parents is cut."""
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

    def apart(self, one: int, other: int) -> tuple[list[int], list[int]]:
        """Return the ways up from two teams to below the nearest team above both."""
        up, down = self.chain(one), self.chain(other)
        return [link for link in up if link not in down], [link for link in down if link not in up]

    def name(self, team: int) -> str:
        """Return the team's name, its number where it is unknown."""
        found = self._teams.get(team)
        return found.name if found else str(team)

    def deepest_first(self) -> list[int]:
        """Return every team after all that are below it."""
        return sorted(self._teams, key=lambda team: (-len(self.chain(team)), team))
