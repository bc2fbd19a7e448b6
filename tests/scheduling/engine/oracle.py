"""The slow, plain answer to compare the engine with: try every set of nodes.

Written from the rules in docs/placement.md, sharing no code with the engine.
"""

from collections.abc import Iterator
from itertools import combinations

from scheduling.engine.world import Gpu, Job, Limit, Node, World


def usable(node: Node, job: Job, model: str) -> list[Gpu]:
    """The free cards of a node that a job could use on one model."""
    return [
        gpu
        for gpu in node.gpus
        if gpu.free and gpu.model == model and gpu.memory_mib >= job.gpu_memory_mib
    ]


def takes(node: Node, job: Job) -> tuple[int, int]:
    """CPU cores and MiB of RAM that a part takes on a node."""
    per_node = job.gpus // job.nodes
    cards = max(1, len(node.gpus))
    cpus, memory = node.cpus // cards * per_node, node.memory_mib // cards * per_node
    if job.cpus is not None:
        cpus = -(-job.cpus // job.nodes)
    if job.memory_mib is not None:
        memory = -(-job.memory_mib // job.nodes)
    return cpus, memory


def has_room(node: Node, job: Job, model: str) -> bool:
    cpus, memory = takes(node, job)
    return (
        node.accepts_work
        and node.pool == job.pool
        and node.id not in job.excluded
        and set(job.labels) <= set(node.labels)
        and len(usable(node, job, model)) >= job.gpus // job.nodes
        and cpus <= max(0, node.cpus_free)
        and memory <= max(0, node.memory_free_mib)
        and job.disk_gib <= max(0, node.disk_free_gib)
    )


def chain(world: World, team: int) -> list[int]:
    parents = {t.id: t.parent for t in world.teams}
    found = [team]
    while (above := parents.get(found[-1])) is not None:
        found.append(above)
    return found


def held(world: World, limit: Limit) -> tuple[int, int, int]:
    """What the subtree of a limit's team holds: milli-GPU, CPU cores, MiB."""
    mine = [
        use
        for use in world.uses
        if limit.team in chain(world, use.team) and limit.gpu_model in ("", use.gpu_model)
    ]
    return (
        sum(use.milli for use in mine),
        sum(use.cpus for use in mine),
        sum(use.memory_mib for use in mine),
    )


def counted(world: World, team: int, model: str, job: Job | None, *, firm: bool) -> int:
    """What a team counts as above: what it holds, each child as no less than what it keeps.

    Of firm work, a child counts as no less than all that is its own.
    """
    limits = {(limit.team, limit.gpu_model): limit for limit in world.limits}
    own = sum(
        use.firm_milli if firm else use.milli
        for use in world.uses
        if use.team == team and model in ("", use.gpu_model)
    )
    if job is not None and job.team == team and not (firm and job.preemptible):
        own += 1000 * job.gpus
    for child in (t.id for t in world.teams if t.parent == team):
        limit = limits.get((child, model))
        keeps = 0
        if limit is not None:
            lent = limit.nominal_milli if limit.lending_milli is None else limit.lending_milli
            keeps = limit.nominal_milli if firm else max(0, limit.nominal_milli - lent)
        own += max(keeps, counted(world, child, model, job, firm=firm))
    return own


def may_hold_cards(world: World, job: Job, limit: Limit) -> bool:
    """Whether a limit on cards, on the way up from the job's team, leaves room for it."""
    mine = sum(
        use.milli
        for use in world.uses
        if use.team == job.team == limit.team
        and use.user == job.user
        and limit.gpu_model in ("", use.gpu_model)
    )
    own = job.team == limit.team and bool(job.user)
    if own and limit.user_milli is not None and mine + 1000 * job.gpus > limit.user_milli:
        return False
    for firm in (False, True):
        before = counted(world, limit.team, limit.gpu_model, None, firm=firm)
        after = counted(world, limit.team, limit.gpu_model, job, firm=firm)
        most = firm_most(world, limit) if firm else limit.milli
        if most is not None and before < after > most:
            return False
    return True


def firm_most(world: World, limit: Limit) -> int | None:
    """Above the topmost team that has a nominal there is nobody to owe or to lend anything."""
    owners = {x.team for x in world.limits if x.nominal_milli and x.gpu_model == limit.gpu_model}
    topmost = not owners & set(chain(world, limit.team)[1:])
    return limit.nominal_milli if limit.nominal_milli and topmost else limit.milli


def within_limits(world: World, job: Job, model: str, nodes: tuple[Node, ...]) -> bool:
    """Whether every team up the tree may hold the job; what is left is divided evenly."""
    for limit in world.limits:
        if limit.team not in chain(world, job.team) or limit.gpu_model not in ("", model):
            continue
        _, cpus, memory = held(world, limit)
        if not may_hold_cards(world, job, limit):
            return False
        for node in nodes:
            more_cpus, more_memory = (amount * job.nodes for amount in takes(node, job))
            if limit.cpus is not None and more_cpus and cpus + more_cpus > limit.cpus:
                return False
            if limit.memory_mib is not None and memory + more_memory > limit.memory_mib:
                return False
    return True


def places(world: World, job: Job) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """Every model and set of nodes on which a job could start now."""
    if job.eligible_us > world.now_us or job.gpus % job.nodes:
        return
    models = {gpu.model for node in world.nodes for gpu in node.gpus if node.pool == job.pool}
    for model in sorted(models if not job.gpu_model else {job.gpu_model}):
        for nodes in combinations(world.nodes, job.nodes):
            roomy = all(has_room(node, job, model) for node in nodes)
            if roomy and within_limits(world, job, model, nodes):
                yield model, nodes


def tightness(job: Job, model: str, nodes: tuple[Node, ...]) -> tuple[object, ...]:
    """What the engine minimises: cards left over, penalty, names, model."""
    each = job.gpus // job.nodes
    return (
        sum(len(usable(node, job, model)) - each for node in nodes),
        sum(node.penalty for node in nodes),
        tuple(sorted((node.name, node.id) for node in nodes)),
        model,
    )
