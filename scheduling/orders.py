"""A job as sent: from named fields to a typed order, or a refusal that names every bad field.

Page, API and command all come through ``parse``, so they accept and refuse the same. What a
known field may be is in order_fields; what is known and not built yet is in NOT_YET. Whether a team
exists or a job could ever fit is the service's question, not this one's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from .errors import InvalidOrder
from .order_fields import FIELDS

NOT_YET = ("image", "share", "mig", "array")


@dataclass(frozen=True, slots=True)
class JobOrder:
    """What a person asks for. Times in seconds, memory in MiB, empty string for "any".

    ``nodes`` None: as few as will do. ``parallelism`` is empty or has tp, pp and dp.
    """

    team: str
    command: str
    gpus: int
    pool: str = ""
    name: str = ""
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: int | None = None
    gpu_model: str = ""
    gpu_memory_mib: int = 0
    gpu_memory_limit_mib: int | None = None
    gpu_capability: int = 0
    cpus: int | None = None
    memory_mib: int | None = None
    disk_gib: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    launch: str = "per_node"
    device_ids: str = "uuid"
    time_limit_s: int | None = None
    priority: str = "normal"
    requeue: bool = True
    begin_at: datetime | None = None
    after: tuple[int, ...] = ()
    after_any: bool = False
    reservation: int | None = None
    grace_s: int | None = None
    stop_signal: str = "TERM"
    signal_to: str = "group"
    checkpoint_interval_s: int | None = None
    parallelism: Mapping[str, int] = field(default_factory=dict)
    topology_level: str = ""
    topology_required: bool = False


def parse(fields: Mapping[str, Any]) -> JobOrder:
    """Read an order. Raises InvalidOrder whose ``fields`` has one sentence for each bad field."""
    bad = {name: _unknown(name) for name in fields if name not in FIELDS and name not in NOT_YET}
    bad |= {
        name: f"{name} is planned and not built yet. Leave it out."
        for name in NOT_YET
        if fields.get(name) is not None
    }
    values = _read(fields, bad)
    for name in ("team", "command", "gpus"):
        if name not in values and name not in bad:
            bad[name] = f"{name} is missing."
    if not bad:
        bad = dict(_at_odds(values))
    if bad:
        raise _invalid(bad)
    return JobOrder(**values)


def _at_odds(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what fields say against each other; fills in the axes of parallelism left out."""
    gpus, nodes = values["gpus"], values.get("nodes")
    if nodes and gpus % nodes:
        yield (
            "nodes",
            f"{gpus} GPUs cannot be shared equally by {nodes} nodes. "
            "gpus is the total and must be divisible by nodes.",
        )
    least, most = values.get("gpu_memory_mib", 0), values.get("gpu_memory_limit_mib")
    if most is not None and most < least:
        yield (
            "gpu_memory_limit_gib",
            f"The limit of {most / 1024:g} GiB is below the {least / 1024:g} GiB that are asked.",
        )
    given = values.get("parallelism")
    if given:
        axes = {"tp": 1, "pp": 1, **given}
        axes.setdefault("dp", max(1, gpus // (axes["tp"] * axes["pp"])))
        values["parallelism"] = axes
        product = axes["tp"] * axes["pp"] * axes["dp"]
        if product != gpus:
            yield (
                "parallelism",
                f"tp {axes['tp']} × pp {axes['pp']} × dp {axes['dp']} is {product}; "
                f"the job has {gpus} GPUs. The product must be their number.",
            )


def _read(fields: Mapping[str, Any], bad: dict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (target, read) in FIELDS.items():
        if fields.get(name) is not None:
            try:
                values.update(read(target, fields[name]))
            except ValueError as why:
                bad[name] = str(why)
    return values


def _invalid(bad: dict[str, str]) -> InvalidOrder:
    first = next(iter(bad.values()))
    more = f" {len(bad) - 1} more fields are wrong too." if len(bad) > 1 else ""
    return InvalidOrder(first + more, next_step="Correct the order and send it again.", fields=bad)


def _unknown(name: str) -> str:
    near = get_close_matches(name, FIELDS, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{name[:80]!r} is not a field of a job. {hint}Valid: {', '.join(FIELDS)}."
