"""Is what a waiting job is told true? Change what its reasons name, and it has to start.

The evening of a plan is the day it was made of with the plan carried out. There the job stands
alone (whoever is ahead or was asked to leave is gone), the things its other reasons name are
changed, and a new plan has to start it. A way round is tried on the day itself, with everybody
else in the queue.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scheduling.engine.plan import plan
from scheduling.engine.ways import Way
from scheduling.engine.world import Job, Limit, Node, Use, Waiting, World

from .worlds import SECOND

Numbers = dict[str, Any]
_LIMITS = {"gpus": "milli", "cpus": "cpus", "memory": "memory_mib"}
MOST_CHANGES = 12


def starts_once_mended(evening: World, job: Job, waiting: Waiting) -> bool:
    """Whether the job starts once all that its reasons name is changed, and nothing else."""
    mended = _have_left(replace(evening, jobs=(job,)), {})
    for why in waiting.reasons:
        if why.code == "NeverFits":
            return _fits_in_the_end(mended)
        mended = _MENDS[why.code](mended, dict(why.numbers))
    decided = plan(mended)
    return bool(decided.placements)


def starts_with(day: World, job: Job, way: Way) -> bool:
    """Whether the job starts at once when this one field is changed."""
    changed: Any = {way.field: way.value}
    jobs = tuple(replace(one, **changed) if one.id == job.id else one for one in day.jobs)
    return any(p.job == job.id for p in plan(replace(day, jobs=jobs)).placements)


def may_then_preempt(day: World, job: Job) -> bool:
    """Whether a job that would have to stop too many gets its cards when its pool allows it."""
    pools = tuple(
        replace(pool, max_victims=1000, max_evicted_percent=100_000) for pool in day.pools
    )
    decided = plan(replace(day, pools=pools, jobs=(job,)))
    return bool(decided.placements or decided.pledges)


def _fits_in_the_end(broken: World) -> bool:
    """Ask for what is named as the largest, until nothing is too large; then all is given back."""
    for _ in range(MOST_CHANGES):
        (waiting, *_rest) = (*plan(_emptied(broken)).waiting, None)
        if waiting is None:
            return True
        why = waiting.reasons[0]
        if why.code != "NeverFits":
            return False
        broken = _smaller(broken, dict(why.numbers))
    return False


def _emptied(world: World) -> World:
    """Nothing runs, nothing is booked or limited, every card is well, every node works."""
    nodes = tuple(
        replace(
            node,
            gpus=tuple(replace(gpu, free=True, why_not="") for gpu in node.gpus),
            cpus_free=node.cpus,
            memory_free_mib=node.memory_mib,
            disk_free_gib=node.disk_gib,
            accepts_work=True,
        )
        for node in world.nodes
    )
    jobs = tuple(_free(job) for job in world.jobs)
    bare = replace(world, nodes=nodes, jobs=jobs, running=(), uses=(), limits=(), bookings=())
    return replace(bare, pledges=())


def _free(job: Job) -> Job:
    """A job that waits for no time, no other job and no node left out."""
    bare = replace(job, eligible_us=0, begin_us=0, after=(), after_lost=())
    return replace(bare, excluded=frozenset[int]())


def _smaller(broken: World, told: Numbers) -> World:
    (job,) = broken.jobs
    what, largest = told["what"], told.get("largest", 0)
    parts = job.nodes
    changes: dict[str, dict[str, Any]] = {
        "split": {"gpus": parts * max(job.gpus // parts, 1)},
        "pool": {"pool": next((n.pool for n in broken.nodes if n.gpus), job.pool)},
        "model": {"gpu_model": str(told.get("models", "")).split(", ")[0]},
        "card_memory": {"gpu_memory_mib": largest},
        "labels": {"labels": ()},
        "nodes": {"nodes": largest, "gpus": largest * (job.gpus // parts)},
        "gpus": {"gpus": largest * parts},
        "cpus": {"cpus": largest * parts},
        "memory": {"memory_mib": largest * parts},
        "disk": {"disk_gib": largest},
    }
    change: Any = changes[what]
    return replace(broken, jobs=(replace(job, **change),))


def _same(broken: World, told: Numbers) -> World:
    return broken


def _not_backing_off(broken: World, told: Numbers) -> World:
    return replace(broken, jobs=tuple(replace(job, eligible_us=0) for job in broken.jobs))


def _time_has_come(broken: World, told: Numbers) -> World:
    jobs = tuple(replace(job, eligible_us=0, begin_us=0) for job in broken.jobs)
    return replace(broken, jobs=jobs)


def _others_ended(broken: World, told: Numbers) -> World:
    ended: Any = {"after_lost": ()} if told["lost"] else {"after": ()}
    return replace(broken, jobs=tuple(replace(job, **ended) for job in broken.jobs))


def _open(broken: World, told: Numbers) -> World:
    nodes = tuple(replace(node, accepts_work=True) for node in broken.nodes)
    jobs = tuple(replace(job, excluded=frozenset[int]()) for job in broken.jobs)
    return replace(broken, nodes=nodes, jobs=jobs)


def _given_back(broken: World, told: Numbers) -> World:
    what = str(told.get("what", "gpus"))
    if what == "gpus":
        nodes = tuple(_cards_back(node) for node in broken.nodes)
        return replace(broken, nodes=nodes, running=())
    total, free = {
        "cpus": ("cpus", "cpus_free"),
        "memory": ("memory_mib", "memory_free_mib"),
        "disk": ("disk_gib", "disk_free_gib"),
    }[what]
    nodes = tuple(_with(node, free, getattr(node, total)) for node in broken.nodes)
    return replace(broken, nodes=nodes)


def _with(node: Node, field: str, value: int) -> Node:
    change: Any = {field: value}
    return replace(node, **change)


def _cards_back(node: Node) -> Node:
    """A card comes back with its share of the node."""
    back, cards = sum(not gpu.free for gpu in node.gpus), max(1, len(node.gpus))
    cpus = min(node.cpus, node.cpus_free + back * (node.cpus // cards))
    memory_mib = min(node.memory_mib, node.memory_free_mib + back * (node.memory_mib // cards))
    gpus = tuple(replace(gpu, free=True, why_not="") for gpu in node.gpus)
    return replace(node, gpus=gpus, cpus_free=cpus, memory_free_mib=memory_mib)


def _raised(broken: World, told: Numbers) -> World:
    field = "nominal_milli" if told.get("firm") else _LIMITS[told["what"]]
    return _lifted(broken, told, field)


def _user_raised(broken: World, told: Numbers) -> World:
    return _lifted(broken, told, "user_milli")


def _lifted(broken: World, told: Numbers, field: str) -> World:
    """Raise the limit that is named to what was held and asked."""
    needed = int(told["held"]) + int(told["asked"])
    named = (told["team_id"], told["model"])
    return replace(
        broken,
        limits=tuple(
            _lift(one, field, needed) if (one.team, one.gpu_model) == named else one
            for one in broken.limits
        ),
    )


def _lift(limit: Limit, field: str, needed: int) -> Limit:
    """Raise a field; a share of its own takes the limit along, and back where nobody borrows."""
    most: Any = {field: max(needed, getattr(limit, field) or 0)}
    if field == "nominal_milli" and limit.milli is not None:
        most["milli"] = max(needed, limit.milli)
    if field == "milli" and limit.nominal_milli and limit.nominal_milli == limit.milli:
        most["nominal_milli"] = max(needed, limit.nominal_milli)
    return replace(limit, **most)


def _ends_before(broken: World, told: Numbers) -> World:
    """A limit that ends before what is booked; where that begins at once, the booking is gone."""
    left_us = int(told["at_s"]) * SECOND - broken.now_us
    if left_us <= 0:
        return replace(broken, bookings=())
    return replace(broken, jobs=tuple(_shorter(job, left_us) for job in broken.jobs))


def _shorter(job: Job, limit_us: int) -> Job:
    return replace(job, limit_us=min(limit_us, job.limit_us or limit_us))


def _have_left(broken: World, told: Numbers) -> World:
    gone = {gpu for one in broken.running if one.leaving for gpu in one.gpus}
    left = [one for one in broken.running if one.leaving]
    nodes = tuple(
        replace(
            node,
            gpus=tuple(replace(g, free=True, why_not="") if g.id in gone else g for g in node.gpus),
            cpus_free=node.cpus_free + sum(one.cpus for one in left if one.node == node.id),
            memory_free_mib=node.memory_free_mib
            + sum(one.memory_mib for one in left if one.node == node.id),
            disk_free_gib=node.disk_free_gib
            + sum(one.disk_gib for one in left if one.node == node.id),
        )
        for node in broken.nodes
    )
    models = {gpu.id: gpu.model for node in broken.nodes for gpu in node.gpus}
    freed = tuple(
        Use(
            one.team, models[one.gpus[0]], -1000 * len(one.gpus), -one.cpus, -one.memory_mib,
            0 if one.preemptible else -1000 * len(one.gpus), one.user,
        )
        for one in left
    )  # fmt: skip
    stays = tuple(one for one in broken.running if not one.leaving)
    return replace(broken, nodes=nodes, running=stays, uses=(*broken.uses, *freed))


_MENDS: dict[str, Callable[[World, Numbers], World]] = {
    "AwaitingPreemption": _have_left,
    "Backoff": _not_backing_off,
    "BeginTime": _time_has_come,
    "Dependency": _others_ended,
    "Fragmented": _given_back,
    "Maintenance": _ends_before,
    "NodeUnavailable": _open,
    "PreemptionTooWide": _same,
    "Priority": _same,
    "QuotaBorrow": _raised,
    "QuotaLimit": _raised,
    "QuotaNominal": _raised,
    "Reservation": _ends_before,
    "Resources": _given_back,
    "UserLimit": _user_raised,
}
CODES = tuple(sorted([*_MENDS, "NeverFits"]))
