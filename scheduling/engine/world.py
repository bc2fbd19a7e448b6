"""The nouns of a decision: what goes into a cycle (``World``); decided.py has what comes out.

Owns frozen values only: no rule lives here. Times are microseconds since the epoch (UTC), memory
is MiB, disk is GiB, shares of GPUs are milli-GPU, ids are database ids; nothing is a float. A new
fact about a node, card or job is a field with a default at the end of its class.
"""

from dataclasses import dataclass

from .decided import (
    Eviction as Eviction,
)
from .decided import (
    Fallen as Fallen,
)
from .decided import (
    PartPlan as PartPlan,
)
from .decided import (
    Placement as Placement,
)
from .decided import (
    Plan as Plan,
)
from .decided import (
    Pledge as Pledge,
)
from .decided import (
    Reason as Reason,
)
from .decided import (
    Waiting as Waiting,
)
from .decided import (
    reason as reason,
)

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card. ``free``: healthy, held by nobody, in nobody's foreign use.

    ``why_not`` names what keeps a card from being free: held, failed, degraded, foreign,
    quarantined or releasing. ``memory_mib`` is what a job may use of it. Cards of one ``island``
    of their node reach each other fastest. ``capability`` is ten times CUDA's: 90 for 9.0. Of
    cards that would do as well, one with a larger ``penalty`` is taken later.
    """

    id: int
    uuid: str
    index: int
    model: str
    memory_mib: int
    free: bool
    why_not: str = ""
    island: int = 0
    capability: int = 0
    penalty: int = 0

    @property
    def turn(self) -> tuple[int, int, int]:
        """The order in which cards of one make are taken."""
        return self.penalty, self.index, self.id


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: its totals and what is free of them. A larger ``penalty`` is placed later.

    ``rack`` and ``block`` name its place; empty is unknown, which is near to nothing.
    """

    id: int
    name: str
    pool: int
    gpus: tuple[Gpu, ...]
    cpus: int
    memory_mib: int
    disk_gib: int
    cpus_free: int
    memory_free_mib: int
    disk_free_gib: int
    labels: Labels = ()
    accepts_work: bool = True
    why_not: str = ""
    penalty: int = 0
    rack: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Team:
    """One team of the tree; ``parent`` is None at a root. Among siblings ``weight`` counts."""

    id: int
    name: str
    parent: int | None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Spent:
    """What a user of a leaf team used of late, older use counting less, in milli-GPU-seconds."""

    team: int
    user: str
    milli_s: int


@dataclass(frozen=True, slots=True)
class Budget:
    """What a team may use until ``renews_us``, and has used, in milli-GPU-seconds.

    Beyond a ``hard`` one nothing starts; beyond another the team's jobs go after those of others.
    """

    milli_s: int
    spent_milli_s: int
    hard: bool
    renews_us: int


@dataclass(frozen=True, slots=True)
class Limit:
    """The most a team's subtree may hold; ``gpu_model`` "" is all together, None is no limit.

    Of ``milli``, ``nominal_milli`` is its own and the rest borrowed; of its own it lends at most
    ``lending_milli`` (None: all). One person of the team may hold ``user_milli`` of it.
    """

    team: int
    gpu_model: str
    milli: int | None
    cpus: int | None = None
    memory_mib: int | None = None
    nominal_milli: int = 0
    lending_milli: int | None = None
    user_milli: int | None = None
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What is charged to a leaf team now, on cards of one model, for one user of it.

    Of ``milli``, ``firm_milli`` is held by work that cannot be taken back.
    """

    team: int
    gpu_model: str
    milli: int
    cpus: int
    memory_mib: int
    firm_milli: int = 0
    user: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A request: ``gpus`` in all, in equal parts on ``nodes`` different nodes, all of one model.

    ``cpus`` and ``memory_mib`` are totals, divided evenly and rounded up; None takes of each node
    its share per card. ``disk_gib`` is asked of every node. ``excluded`` are node ids left out.
    ``limit_us`` is how long it holds its cards at most, from its placement until they are clean;
    None: no limit. ``booking`` is the one it runs in, 0 for none. ``level`` is how near its cards
    are to lie: island, node, rack, block or "" for anywhere; ``required``: nothing wider will do.
    ``tp`` cards in a row of ranks are one tensor-parallel group. ``begin_us``: what it asked not to
    be started before (``eligible_us`` is no earlier). It waits for the jobs of ``after``;
    ``after_lost`` have ended, and not as it asked.
    """

    id: int
    team: int
    pool: int
    priority: int
    submitted_us: int
    gpus: int
    nodes: int = 1
    gpu_model: str = ""
    gpu_memory_mib: int = 0
    cpus: int | None = None
    memory_mib: int | None = None
    disk_gib: int = 0
    labels: Labels = ()
    excluded: frozenset[int] = frozenset()
    eligible_us: int = 0
    user: str = ""
    limit_us: int | None = None
    preemptible: bool = False
    booking: int = 0
    may_preempt: bool = False
    level: str = ""
    required: bool = False
    tp: int = 1
    capability: int = 0
    begin_us: int = 0
    after: tuple[int, ...] = ()
    after_lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """What a job holds of one node, and until when at the latest (None: it has no limit).

    ``gpus`` are card ids. A card that is being cleaned is held until it is thought to be clean.
    ``leaving``: it was asked to stop or is gone; ``leaves_us`` is the end of its window then, 0 if
    it has none. ``charged``: it counts against its team; a card being cleaned does not. ``booked``:
    it runs in a booking, which is charged for its cards. What it did before ``saved_us`` is kept.
    ``evictions`` and ``evicted_us`` are of the job: how often it was evicted, and when last;
    ``evicted_by`` are the jobs it left for, ascending.
    """

    job: int
    node: int
    gpus: tuple[int, ...]
    cpus: int
    memory_mib: int
    disk_gib: int
    ends_us: int | None
    team: int = 0
    preemptible: bool = False
    attempt: int = 0
    priority: int = 0
    submitted_us: int = 0
    since_us: int = 0
    saved_us: int = 0
    grace_us: int = 0
    min_runtime_us: int = 0
    evictions: int = 0
    evicted_us: int = 0
    evicted_by: tuple[int, ...] = ()
    leaving: bool = False
    leaves_us: int = 0
    charged: bool = True
    booked: bool = False
    user: str = ""


@dataclass(frozen=True, slots=True)
class Booking:
    """Cards promised over [start_us, end_us): only jobs of that ``id`` may run into it there.

    ``kind`` is reservation or maintenance. ``id`` is not 0. Its cards are charged to ``team`` while
    it lasts, 0 for nobody; those of its jobs are not charged beside it.
    """

    id: int
    gpus: tuple[int, ...]
    start_us: int
    end_us: int
    kind: str = "reservation"
    team: int = 0
    user: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """The rules of a pool's queue.

    ``strict``: nobody starts past one that lacks room. ``depth``: for how many jobs room is kept
    on the time line, from the first of the queue; 0 for none, -1 for all. The rest bounds
    evictions: how many jobs at once for one, how many GPUs in percent of those asked for, how
    long a job is spared after one, and after how many it is spared for good (0: never).
    ``climb_us``: after so long a job takes one level more than the one it prefers.
    """

    id: int
    strict: bool = False
    depth: int = 1
    max_victims: int = 8
    max_evicted_percent: int = 800
    cooldown_us: int = 300_000_000
    max_evictions: int = 10
    climb_us: int = 120_000_000


@dataclass(frozen=True, slots=True)
class World:
    """Everything one decision may look at; the order inside the tuples means nothing.

    A job that waits for ``starves_us`` goes first of all; 0: none does.
    """

    now_us: int
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    teams: tuple[Team, ...] = ()
    limits: tuple[Limit, ...] = ()
    uses: tuple[Use, ...] = ()
    running: tuple[Running, ...] = ()
    bookings: tuple[Booking, ...] = ()
    pools: tuple[Pool, ...] = ()
    pledges: tuple[Pledge, ...] = ()
    spent: tuple[Spent, ...] = ()
    starves_us: int = 0
