"""Could any state of these machines ever hold this job? Asked once, when it is submitted."""

from nodes import clock

from . import snapshot
from .engine import explain
from .engine.world import Reason
from .errors import NeverFits
from .models import Job

# What the engine finds too much, as the field of an order that asked for it.
_FIELDS = {
    "pool": "pool",
    "model": "gpu_model",
    "card_memory": "gpu_memory_gib",
    "labels": "labels",
    "nodes": "nodes",
    "split": "nodes",
    "cpus": "cpus",
    "memory": "memory_gib",
    "disk": "disk_gib",
    "capability": "gpu_capability",
    "groups": "parallelism",
    "tp": "parallelism",
    "level": "topology",
    "level_nodes": "topology",
}


def what_never_fits(job: Job) -> Reason | None:
    """NeverFits with the largest that could, for a job no state could hold; else None."""
    return explain.ever(snapshot.inventory(clock.now()), snapshot.engine_job(job))


def fewest_nodes(job: Job) -> int:
    """Over how many nodes a job that names no number is spread: 1 where one could hold it."""
    never = what_never_fits(job)
    return int(dict(never.numbers).get("spread") or 1) if never else 1


def refuse_what_never_fits(job: Job) -> None:
    """Raise NeverFits for a job no state could hold."""
    never = what_never_fits(job)
    if never is not None:
        sentence = explain.sentence(never)
        field = _FIELDS.get(str(dict(never.numbers).get("what")), "gpus")
        raise NeverFits(sentence, next_step="", fields={field: sentence})
