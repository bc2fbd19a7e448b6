"""What no state of the inventory could hold, with the largest that it could.

Pure. Looks at totals only, by kinds of nodes (equal machines count once). ``_STEPS`` is the order
in which a request is narrowed; a new constraint on totals is one more step.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .fit import Need, splits
from .hosts import Kind
from .levels import holds, places
from .outlook import could_hold
from .stock import Stock
from .world import Job, Reason, reason


class _Step(NamedTuple):
    what: str
    has: Callable[[Kind], int]
    asks: Callable[[Need, Kind], int]


_STEPS = (
    _Step("gpus", lambda kind: kind.cards, lambda need, kind: need.gpus),
    _Step("cpus", lambda kind: kind.cpus, lambda need, kind: need.cpus_on(kind)),
    _Step("memory", lambda kind: kind.memory_mib, lambda need, kind: need.memory_on(kind)),
    _Step("disk", lambda kind: kind.disk_gib, lambda need, kind: need.disk_gib),
)


def never(stock: Stock, job: Job, needs: Iterable[tuple[str, Need]]) -> Reason | None:
    """Return NeverFits when no state of the nodes could hold the job, else None.

    The numbers are of the model that comes furthest: ``what`` is the first thing no ``nodes``
    nodes have, ``asked`` of it and the ``largest`` that they have. Cost: O(kinds of nodes).
    """
    if not splits(job):
        return _uneven(job)
    found: list[tuple[int, int, str, Reason]] = []
    for model, need in needs:
        stage, largest, why = _first_lack(stock, job, model, need)
        if why is None:
            return None
        found.append((-stage, -largest, model, why))
    if not found:
        return reason("NeverFits", what="pool", asked=job.gpus, largest=0)
    return min(found)[3]


def _first_lack(stock: Stock, job: Job, model: str, need: Need) -> tuple[int, int, Reason | None]:
    sizes = stock.sizes_of(job.pool, model)
    if not sizes:
        models = ", ".join(stock.models_of(job.pool))
        return 0, 0, reason("NeverFits", what="model", asked=model, models=models)
    if sizes[-1] < job.gpu_memory_mib:
        return 1, sizes[-1], _lack(model, "card_memory", job.gpu_memory_mib, sizes[-1])
    newest = stock.capability_of(job.pool, model)
    if newest < job.capability:
        return 1, newest, _lack(model, "capability", job.capability, newest)
    census = stock.shelf(stock.wanted(job, model)).census
    if not census:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(job.labels))
        return 2, 0, reason("NeverFits", what="labels", asked=labels, model=model)
    if census.total() < need.nodes:
        return 3, census.total(), _lack(model, "nodes", need.nodes, census.total())
    why = _narrow(census, job, model, need)
    return why if why[2] else _apart(stock, job, model, need)


def _narrow(
    census: Counter[Kind], job: Job, model: str, need: Need
) -> tuple[int, int, Reason | None]:
    """Leave out, thing by thing, the nodes that have too little; stop when too few are left."""
    whole = census
    for stage, step in enumerate(_STEPS, start=4):
        left = Counter({k: n for k, n in census.items() if step.has(k) >= step.asks(need, k)})
        if left.total() < need.nodes:
            most = _most_on(census, step, need.nodes)
            asked = max(step.asks(need, kind) for kind in census)
            if step.what == "gpus" and job.tp > most:
                return stage, most, _lack(model, "tp", job.tp, most)
            spread = _spread(whole, job, need) if step.what == "gpus" else 0
            return stage, most, _lack(model, step.what, asked, most, need.nodes, spread)
        census = left
    return len(_STEPS) + 4, 0, None


def _apart(stock: Stock, job: Job, model: str, need: Need) -> tuple[int, int, Reason | None]:
    """Say when no place of a level that a job requires could hold it; the most nodes one has."""
    stage = len(_STEPS) + 4
    if not job.required or holds(stock, job, job.level):
        return stage + 1, 0, None
    if job.level in ("island", "node") and job.nodes > 1:
        return stage, 0, _lack(model, "level_nodes", job.nodes, 1, level=job.level)
    kinds = [stock.shelf(wanted).census for wanted in places(stock, job, model, job.level)]
    if job.level == "island":
        most = max((kind.cards for census in kinds for kind in census), default=0)
        return stage, most, _lack(model, "level", need.gpus, most, level=job.level)
    most = max((sum(n for k, n in c.items() if could_hold(k, need)) for c in kinds), default=0)
    return stage, most, _lack(model, "level", need.nodes, most, need.nodes, level=job.level)


def _uneven(job: Job) -> Reason:
    """Say why the cards do not divide; for TP groups, the largest that would do."""
    if job.nodes < 1 or job.gpus < job.nodes or job.gpus % job.nodes:
        return reason("NeverFits", what="split", asked=job.gpus, nodes=job.nodes)
    per_node = job.gpus // job.nodes
    largest = max(size for size in range(1, per_node + 1) if per_node % size == 0 and size < job.tp)
    return reason("NeverFits", what="groups", asked=job.tp, per_node=per_node, largest=largest)


def _most_on(census: Counter[Kind], step: _Step, nodes: int) -> int:
    """Return the largest amount that as many as ``nodes`` nodes have."""
    for kind in sorted(census, key=step.has, reverse=True):
        nodes -= census[kind]
        if nodes <= 0:
            return step.has(kind)
    return 0


def _spread(census: Counter[Kind], job: Job, need: Need) -> int:
    """Return the fewest nodes over which the cards could be spread evenly; 0 when none would do."""
    for nodes in range(need.nodes + 1, min(job.gpus, census.total()) + 1):
        per_node, rest = divmod(job.gpus, nodes)
        if rest or per_node % job.tp:
            continue
        if sum(n for kind, n in census.items() if kind.cards >= per_node) >= nodes:
            return nodes
    return 0


def _lack(
    model: str,
    what: str,
    asked: int,
    largest: int,
    nodes: int = 1,
    spread: int = 0,
    level: str = "",
) -> Reason:
    more = {"level": level} if level else {}
    return reason(
        "NeverFits",
        what=what,
        model=model,
        asked=asked,
        largest=largest,
        nodes=nodes,
        spread=spread,
        **more,
    )
