"""What would let a waiting job start now: single changes, found by the engine on what is free."""

from collections.abc import Sequence
from urllib.parse import urlencode

from django.urls import reverse

from nodes import clock
from scheduling import snapshot
from scheduling.engine import explain
from scheduling.models import Job

from .words import count


def ways(job: Job) -> Sequence[tuple[str, str]]:
    """Changes in words, each with the address of a form that has it. Cost: one snapshot."""
    world = snapshot.take(clock.now()).world
    asked = next((one for one in world.jobs if one.id == job.pk), None)
    if asked is None:
        return ()
    return [_told(job, way.field, way.value) for way in explain.counterfactual(world, asked)]


def _told(job: Job, field: str, value: int | str) -> tuple[str, str]:
    said = {
        "gpus": f"{value} instead of {count(job.gpus, 'GPU')}",
        "gpu_model": f"{value} instead of {job.gpu_model}",
        "nodes": f"spread over {value} nodes",
    }
    link = urlencode({"from": job.pk, field: value})
    return said.get(field, f"{field} {value}"), f"{reverse('job-new')}?{link}"
