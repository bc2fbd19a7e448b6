"""Whose turn is it? The queue shared between teams, and inside a team between its users.

Owns the count of what everybody used of late and was just let in for. At every level of the tree
the child goes first that used least for its weight; what it is let in for is charged at once, so
that under load the turns come in the ratio of the weights and a burst of one team is one turn of
many. Looks at no card and no quota. Integers only.
Sources: the fair tree of Slurm; charging at the decision is weighted fair queueing (A. Demers,
S. Keshav and S. Shenker, SIGCOMM 1989).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from .tree import Tree
from .world import Job, Spent, Team

# For how long of its run a job is charged when its turn comes, if its limit is not shorter.
CHARGED_S = 3600
# What is used is divided by a weight; this keeps apart what whole numbers would not.
_EXACT = 1 << 20

Place = tuple[int, str]  # a team, or a user (whose name has a mark before it) of a team
Share = tuple[int, int]  # what was used for the weight, less goes first; no weight comes last


class Fair:
    """What each team and user used of late, and the turns that follow from it in one cycle."""

    def __init__(self, teams: Iterable[Team], spent: Iterable[Spent]) -> None:
        """Count what was spent into every team up the tree. Cost: O(teams + spent x depth)."""
        teams = tuple(teams)
        self._tree = Tree(teams)
        self._weights = {team.id: team.weight for team in teams}
        self._used: dict[Place, int] = defaultdict(int)
        for one in spent:
            for place in self._path(one.team, one.user):
                self._used[place] += one.milli_s

    def line(self, jobs: Iterable[Job]) -> list[Job]:
        """Return jobs in the order of their turns, charging each its turn as it comes.

        Of one user earlier submission goes first, then the smaller id. Where two have used alike
        for their weights, whoever submitted first does. Cost: O(jobs x depth x log teams).
        """
        root = _Group((0, ""))
        waiting = sorted(jobs, key=lambda job: (job.submitted_us, job.id))
        for job in waiting:
            root.add(self._path(job.team, job.user), job)
        root.begin(self._share)
        return [root.next(self._charge) for _ in waiting]

    def _charge(self, place: Place, job: Job) -> Share:
        self._used[place] += turn_milli_s(job)
        return self._share(place)

    def _share(self, place: Place) -> Share:
        team, user = place
        weight = 1 if user else self._weights.get(team, 1)
        used = max(0, self._used[place])
        return (0, used * _EXACT // weight) if weight > 0 else (1, used)

    def _path(self, team: int, user: str) -> list[Place]:
        return [*((link, "") for link in reversed(self._tree.chain(team))), (team, f"@{user}")]


class _Group:
    """A team or user with jobs that wait: children in the order of their turns, or jobs."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.first = (0, 0)
        self._jobs: deque[Job] = deque()
        self._children: dict[Place, _Group] = {}
        self._heap: list[tuple[Share, tuple[int, int], Place]] = []

    def add(self, path: list[Place], job: Job) -> None:
        """Put a job, later than those before it, at the end of a path of places."""
        group = self
        for place in path:
            group = group._children.setdefault(place, _Group(place))
        group._jobs.append(job)

    def begin(self, share: Callable[[Place], Share]) -> None:
        """Order the children, deepest first. Cost: O(groups below)."""
        for place, child in self._children.items():
            child.begin(share)
            heappush(self._heap, (share(place), child.first, place))
        self._look()

    def next(self, charge: Callable[[Place, Job], Share]) -> Job:
        """Take out the job whose turn it is and charge every place above it."""
        if self._jobs:
            job = self._jobs.popleft()
        else:
            place = heappop(self._heap)[2]
            child = self._children[place]
            job = child.next(charge)
            share = charge(place, job)
            if not child.is_empty():
                heappush(self._heap, (share, child.first, place))
        self._look()
        return job

    def is_empty(self) -> bool:
        """Return whether no job waits here any more."""
        return not self._jobs and not self._heap

    def _look(self) -> None:
        """Note the earliest of the jobs that are next here: it decides between equals."""
        if self._jobs:
            self.first = (self._jobs[0].submitted_us, self._jobs[0].id)
        elif self._heap:
            self.first = self._heap[0][1]


def turn_milli_s(job: Job) -> int:
    """Return what a job is charged when its turn comes, in milli-GPU-seconds."""
    limit_s = CHARGED_S if job.limit_us is None else job.limit_us // 1_000_000
    return job.gpus * 1000 * min(limit_s, CHARGED_S)
