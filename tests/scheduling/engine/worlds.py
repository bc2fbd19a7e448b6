"""Worlds in one line: builders that hide the dull and keep the numbers that matter visible.

Cards get ids 1, 2, 3, … in the order the nodes are named; node ids likewise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduling.engine.world import Gpu, Job, Limit, Node, Plan, Reason, Team, Use, World

GIB = 1024
NOW_US = 1_000_000_000_000


def job(id: int, *, gpus: int = 1, **fields: object) -> Job:
    """A job of team 1 in pool 1, submitted in the order of its id."""
    wants: dict[str, object] = {"team": 1, "pool": 1, "priority": 0, "submitted_us": id}
    return Job(id=id, gpus=gpus, **{**wants, **fields})  # type: ignore[arg-type]


def node(id: int, name: str, gpus: tuple[Gpu, ...], **fields: object) -> Node:
    """A node with 8 CPU cores, 64 GiB of RAM and 100 GiB of disk a card, all free."""
    many = max(1, len(gpus))
    totals: dict[str, object] = {
        "pool": 1,
        "cpus": 8 * many,
        "memory_mib": 64 * GIB * many,
        "disk_gib": 100 * many,
    }
    totals.update({name: value for name, value in fields.items() if name in totals})
    free = {
        "cpus_free": totals["cpus"],
        "memory_free_mib": totals["memory_mib"],
        "disk_free_gib": totals["disk_gib"],
    }
    return Node(id=id, name=name, gpus=gpus, **{**totals, **free, **fields})  # type: ignore[arg-type]


def world(
    nodes: Mapping[str, int],
    held: Mapping[str, int] | None = None,
    queue: Iterable[Job] = (),
    models: Mapping[str, str] | None = None,
    fields: Mapping[str, Mapping[str, object]] | None = None,
    teams: Iterable[Team] = (Team(1, "vision", None),),
    limits: Iterable[Limit] = (),
    uses: Iterable[Use] = (),
) -> World:
    """A world of nodes by name and number of cards; ``held`` says how many of them are taken."""
    built: list[Node] = []
    next_gpu = 1
    for id, (name, count) in enumerate(nodes.items(), start=1):
        taken = (held or {}).get(name, 0)
        model = (models or {}).get(name, "H100")
        cards = tuple(
            Gpu(
                id=next_gpu + i,
                uuid=f"GPU-{next_gpu + i}",
                index=i,
                model=model,
                memory_mib=80 * GIB,
                free=i >= taken,
                why_not="" if i >= taken else "held",
            )
            for i in range(count)
        )
        next_gpu += count
        built.append(node(id, name, cards, **(fields or {}).get(name, {})))
    return World(NOW_US, tuple(built), tuple(queue), tuple(teams), tuple(limits), tuple(uses))


def placed(plan: Plan) -> dict[int, tuple[int, ...]]:
    """The card ids each started job got."""
    return {p.job: tuple(gpu for part in p.parts for gpu in part.gpus) for p in plan.placements}


def nodes_of(plan: Plan) -> dict[int, tuple[int, ...]]:
    """The node ids each started job got, in rank order."""
    return {p.job: tuple(part.node for part in p.parts) for p in plan.placements}


def why(plan: Plan, job_id: int) -> tuple[Reason, ...]:
    """The reasons of one waiting job."""
    return next(waiting.reasons for waiting in plan.waiting if waiting.job == job_id)


def codes(plan: Plan) -> dict[int, list[str]]:
    """The reason codes of each waiting job."""
    return {w.job: [reason.code for reason in w.reasons] for w in plan.waiting}


def after(before: World, plan: Plan) -> World:
    """The world once a plan is carried out: cards, CPU, RAM and disk taken, teams charged."""
    parts = [(p.job, part) for p in plan.placements for part in p.parts]
    taken = {gpu for _, part in parts for gpu in part.gpus}
    model_of = {gpu.id: gpu.model for node in before.nodes for gpu in node.gpus}
    jobs = {job.id: job for job in before.jobs}
    nodes = []
    for n in before.nodes:
        mine = [part for _, part in parts if part.node == n.id]
        cards = tuple(
            replace(g, free=False, why_not="held") if g.id in taken else g for g in n.gpus
        )
        nodes.append(
            replace(
                n,
                gpus=cards,
                cpus_free=n.cpus_free - sum(part.cpus for part in mine),
                memory_free_mib=n.memory_free_mib - sum(part.memory_mib for part in mine),
                disk_free_gib=n.disk_free_gib - sum(part.disk_gib for part in mine),
            )
        )
    charged = tuple(
        Use(
            jobs[job_id].team,
            model_of[part.gpus[0]],
            1000 * len(part.gpus),
            part.cpus,
            part.memory_mib,
            0 if jobs[job_id].preemptible else 1000 * len(part.gpus),
            jobs[job_id].user,
        )
        for job_id, part in parts
    )
    started = {p.job for p in plan.placements}
    waiting = tuple(job for job in before.jobs if job.id not in started)
    return replace(before, nodes=tuple(nodes), jobs=waiting, uses=before.uses + charged)
