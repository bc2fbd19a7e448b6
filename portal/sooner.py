"""What would let a job start now, in words: the engine's single changes, each with its form."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from django.urls import reverse

from scheduling.explaining import Way
from scheduling.models import Job

from .words import count, duration


def ways(job: Job, found: Iterable[Way]) -> Sequence[tuple[str, str]]:
    """Changes in words, each with the address of a form that has it; "" for a job not sent yet."""
    return [(_said(job, way), _link(job, way)) for way in found]


def _said(job: Job, way: Way) -> str:
    said = {
        "gpus": lambda: f"{way.value} instead of {count(job.gpus, 'GPU')}",
        "gpu_model": lambda: f"{way.value} instead of {job.gpu_model}",
        "topology": lambda: f"anywhere instead of in one {job.topology_level}",
        "nodes": lambda: f"spread over {way.value} nodes",
        "pool": lambda: f"in pool {way.value} instead of {job.pool.name}",
        "time_limit": lambda: (
            f"a time limit of {duration(int(way.value))} instead of {duration(job.time_limit_s)}"
        ),
    }
    return said[way.field]() if way.field in said else f"{way.field} {way.value}"


def _link(job: Job, way: Way) -> str:
    if job.pk is None:
        return ""
    value = f"{way.value}s" if way.field == "time_limit" else way.value
    name = "level" if way.field == "topology" else way.field
    return f"{reverse('job-new')}?{urlencode({'from': job.pk, name: value})}"
