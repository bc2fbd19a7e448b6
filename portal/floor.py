"""The machines as a page draws them: one cell a card, in the order of its index.

A cell is hollow when free, filled when held, marked when sick; hue says which team. Who holds a
card is told as a team; the job is named only to those who may see it. The meaning of "free" is
that of ``scheduling.snapshot``. One query beyond those of ``queries.nodes``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nodes.models import WORKING, Gpu, Node
from scheduling.models import Job, Lease, Team
from scheduling.queries import Viewer

HUES = 6
WORDS = {
    "free": "free",
    "held": "in use",
    "cleaning": "being emptied",
    "quarantined": "withheld, not emptied",
    "failed": "failed",
    "foreign": "used by somebody else",
    "off": "free, but its node takes no work",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One card. ``job`` is set only if the viewer may see it; ``team`` always when held."""

    gpu: Gpu
    state: str
    hue: int = 0
    team: str = ""
    job: Job | None = None
    mine: bool = False
    note: str = ""

    @property
    def word(self) -> str:
        return WORDS[self.state]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with its cells; ``why_closed`` is empty while it takes work."""

    node: Node
    cells: tuple[Cell, ...]
    why_closed: str

    @property
    def free(self) -> int:
        return sum(cell.state == "free" for cell in self.cells)

    @property
    def mine(self) -> bool:
        return any(cell.mine for cell in self.cells)

    @property
    def in_words(self) -> str:
        """What the cells say, as text: "2 vision, 5 free, 1 failed"."""
        counts = Counter(cell.team or cell.word for cell in self.cells)
        return ", ".join(f"{count} {what}" for what, count in counts.items()) or "no cards"


@dataclass(frozen=True, slots=True)
class ModelView:
    """Cards of one model: how many, how many are free, the most on one node."""

    name: str
    memory_gib: int
    cards: int
    free: int
    most_on_a_node: int
    roomiest: str


@dataclass(frozen=True, slots=True)
class Floor:
    """All nodes, with the sums that leads and legends are made of."""

    nodes: tuple[NodeView, ...]
    hues: Mapping[int, int]
    names: Mapping[int, str]
    cards: int = 0
    free: int = 0
    held: int = 0
    teams: tuple[tuple[str, int, int], ...] = ()
    models: tuple[ModelView, ...] = field(default=())

    @property
    def out(self) -> int:
        return self.cards - self.free - self.held

    def held_by(self, team: str) -> int:
        """Cards charged to a team: those that are being emptied are charged to nobody."""
        cells = (cell for view in self.nodes for cell in view.cells)
        return sum(cell.team == team and cell.state == "held" for cell in cells)

    @property
    def marks(self) -> list[str]:
        """The states that the legend must explain, in a fixed order."""
        seen = {cell.state for view in self.nodes for cell in view.cells}
        return [state for state in WORDS if state in seen and state != "held"]


def hues() -> dict[int, int]:
    """A hue for each team that can hold cards, by age. One query."""
    return _hues(_leaves())


def _leaves() -> dict[int, str]:
    leaves = Team.objects.filter(children__isnull=True).order_by("pk")
    return dict(leaves.values_list("pk", "name"))


def _hues(leaves: Mapping[int, str]) -> dict[int, int]:
    return {pk: place % HUES + 1 for place, pk in enumerate(leaves)}


def draw(nodes: Iterable[Node], viewer: Viewer) -> Floor:
    """Draw nodes as ``queries.nodes`` gives them."""
    leaves = _leaves()
    colours = _hues(leaves)
    views = tuple(_view(node, viewer, colours) for node in nodes)
    cells = [cell for view in views for cell in view.cells]
    teams = Counter((cell.team, cell.hue) for cell in cells if cell.team)
    return Floor(
        nodes=views,
        hues=colours,
        names=leaves,
        cards=len(cells),
        free=sum(cell.state == "free" for cell in cells),
        held=sum(cell.state in ("held", "cleaning") for cell in cells),
        teams=tuple((name, hue, count) for (name, hue), count in sorted(teams.items())),
        models=_models(views),
    )


def _view(node: Node, viewer: Viewer, colours: Mapping[int, int]) -> NodeView:
    closed = why_closed(node)
    cells = tuple(
        _cell(gpu, viewer, colours, closed) for gpu in node.gpus.all() if gpu.parent_id is None
    )
    return NodeView(node, cells, closed)


def why_closed(node: Node) -> str:
    """Why no new job goes to the node: one clause, or empty."""
    if node.alarm:
        return "traffic is stopped by an alarm"
    if not node.accepts_work:
        return "cordoned"
    if node.liveness != Node.Liveness.UP:
        return "silent" if node.liveness == Node.Liveness.SUSPECT else "lost"
    if node.driver_silent:
        return "its driver does not answer"
    if getattr(node, "pool_node", None) is None:
        return "in no pool"
    return "" if node.health in WORKING else str(node.health)


def _cell(gpu: Gpu, viewer: Viewer, colours: Mapping[int, int], closed: str) -> Cell:
    card = getattr(gpu, "card", None)
    leases: Sequence[Lease] = getattr(card, "live_leases", ())
    if leases:
        return _held(gpu, leases[0], viewer, colours)
    if card is None or gpu.health not in WORKING:
        return Cell(gpu, "failed", note=gpu.health_evidence)
    if card.quarantined_at:
        return Cell(gpu, "quarantined", note=card.quarantine_note)
    if gpu.foreign_use:
        return Cell(gpu, "foreign", note=gpu.foreign_use)
    return Cell(gpu, "off" if closed else "free")


def _held(gpu: Gpu, lease: Lease, viewer: Viewer, colours: Mapping[int, int]) -> Cell:
    job = lease.part.attempt.job
    seen = viewer.team_ids is None or job.team_id in viewer.team_ids
    states = {Lease.State.RELEASING: "cleaning", Lease.State.QUARANTINED: "quarantined"}
    return Cell(
        gpu,
        states.get(Lease.State(lease.state), "held"),
        hue=colours.get(job.team_id, 0),
        team=job.team.name,
        job=job if seen else None,
        mine=job.user_id == viewer.user_id,
        note=lease.note if seen else "",
    )


def _models(views: Sequence[NodeView]) -> tuple[ModelView, ...]:
    found: dict[str, list[Cell]] = defaultdict(list)
    most: dict[str, tuple[int, str]] = {}
    for view in views:
        free = Counter(cell.gpu.model for cell in view.cells if cell.state == "free")
        for cell in view.cells:
            found[cell.gpu.model].append(cell)
        for name, count in free.items():
            if count > most.get(name, (0, ""))[0]:
                most[name] = (count, view.node.name)
    return tuple(
        ModelView(
            name=name,
            memory_gib=min(cell.gpu.memory_mib for cell in cells) // 1024,
            cards=len(cells),
            free=sum(cell.state == "free" for cell in cells),
            most_on_a_node=most.get(name, (0, ""))[0],
            roomiest=most.get(name, (0, ""))[1],
        )
        for name, cells in sorted(found.items())
    )
