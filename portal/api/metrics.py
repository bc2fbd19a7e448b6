"""``/metrics`` for Prometheus: cards in DCGM's own words, jobs and nodes in ours.

Read with the token of an operator or auditor (``authorization: credentials`` of a scrape job).
Labels are bounded: a series for each card and node there is, none for each job or person. A fact
that a card does not tell has no series. docs/grafana.json draws them; a test compares the names.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from nodes.models import Gpu, Node
from portal import access
from scheduling import queries
from scheduling.errors import NotAllowed

from .endpoint import Endpoint

MIB = 1024 * 1024
WORST_LAST = (Node.Health.OK, Node.Health.WATCH, Node.Health.DEGRADED, Node.Health.FAILED)
# name -> (what it is, the fact of a card)
FACTS = {
    "DCGM_FI_DEV_GPU_TEMP": ("GPU temperature (in C).", "temperature_c"),
    "DCGM_FI_DEV_POWER_USAGE": ("Power draw (in W).", "power_w"),
    "DCGM_FI_DEV_GPU_UTIL": ("GPU utilization (in %).", "utilization_pct"),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("Uncorrected memory errors.", "ecc_uncorrected"),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("Rows remapped.", "remapped_uncorrectable"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("PCIe retries.", "pcie_replays"),
}
OURS = {
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "gangway_gpu_health": "Health: 0 ok, 1 watch, 2 degraded, 3 failed.",
    "gangway_gpu_held": "1 while a job, or what is left of one, holds the card.",
    "gangway_node_up": "1 while the node answers.",
    "gangway_node_accepts_work": "1 while the node takes new work.",
    "gangway_jobs": "Jobs that have not ended, by state.",
}
NAMES = (*FACTS, *OURS)
Sample = tuple[str, dict[str, str], float]


class Metrics(Endpoint):
    """What a monitoring system reads, as text."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponseBase:
        if not (access.is_operator(request.user) or access.is_auditor(request.user)):
            raise NotAllowed(
                "Metrics are for operators and auditors.",
                next_step="Use a token of one of them.",
            )
        text = render([*_of_nodes(queries.nodes()), *_of_jobs()])
        return HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")


def render(samples: Iterable[Sample]) -> str:
    """Prometheus's text format: each name once with its help, then its series."""
    by_name: dict[str, list[str]] = {}
    for name, labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(word)}"' for key, word in labels.items())
        by_name.setdefault(name, []).append(f"{name}{{{inside}}} {value:g}")
    lines: list[str] = []
    for name, series in by_name.items():
        told = FACTS[name][0] if name in FACTS else OURS[name]
        lines += [f"# HELP {name} {told}", f"# TYPE {name} gauge", *series]
    return "\n".join(lines) + "\n"


def _of_nodes(nodes: Iterable[Node]) -> Iterator[Sample]:
    for node in nodes:
        labels = {"Hostname": node.name}
        yield "gangway_node_up", labels, float(node.liveness == Node.Liveness.UP)
        yield "gangway_node_accepts_work", labels, float(node.accepts_work)
        for gpu in node.gpus.all():
            yield from _of_card(node, gpu)


def _of_card(node: Node, gpu: Gpu) -> Iterator[Sample]:
    labels = {
        "gpu": str(gpu.index), "UUID": gpu.uuid, "modelName": gpu.product, "Hostname": node.name,
    }  # fmt: skip
    for name, (_, fact) in FACTS.items():
        value: Any = gpu.facts.get(fact)
        if isinstance(value, int | float):
            yield name, labels, float(value)
    yield "DCGM_FI_DEV_FB_USED", labels, float(gpu.used_mib)
    yield "gangway_gpu_health", labels, float(WORST_LAST.index(Node.Health(gpu.health)))
    held = bool(getattr(getattr(gpu, "card", None), "live_leases", ()))
    yield "gangway_gpu_held", labels, float(held)


def _of_jobs() -> Iterator[Sample]:
    for state, count in sorted(queries.counts(queries.Viewer(0, None)).items()):
        yield "gangway_jobs", {"state": state}, float(count)


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
