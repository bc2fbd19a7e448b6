"""The order form: browser input to the fields of an order, and refusals back to their fields.

``scheduling.orders.parse`` reads and refuses; this only brings text areas and check boxes into
its shape. Which fields there are is in ``form_fields``.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduling.errors import SchedulingError
from scheduling.models import Job
from scheduling.order_fields import AXES

from .form_fields import (
    GROUPS,
    NAMES,
    NUMBERS,
    TOPOLOGY,
    WITHIN,
    Choices,
    Field,
    Group,
)

# Where a refusal of a field stands that is several controls of the form.
_SHOWN_AT = {"checkpoint": "grace_s", "parallelism": "tp", "topology": "level"}


@dataclass(slots=True)
class OrderForm:
    """Values as typed, choices as they are now, and what was refused."""

    values: dict[str, str]
    choices: Mapping[str, Choices]
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    errors: dict[str, str] = field(default_factory=dict)
    refused: str = ""

    @property
    def groups(self) -> list[Group]:
        """The groups with values, choices and errors filled in."""
        return [
            Group(group.title, tuple(self._filled(one) for one in group.fields)) for group in GROUPS
        ]

    @property
    def problems(self) -> list[tuple[str, str, str]]:
        """For the summary: field name, its label, what is wrong; in the order of the form."""
        labels = {one.name: one.label for group in GROUPS for one in group.fields}
        return [(name, labels[name], self.errors[name]) for name in NAMES if name in self.errors]

    def order(self) -> dict[str, Any]:
        """The fields of the order. Notes errors of its own for lines that are no pairs."""
        sent: dict[str, Any] = {}
        for name in (name for name in NAMES if name not in TOPOLOGY):
            text = self.values.get(name, "")
            if name in ("env", "labels"):
                sent[name] = self._pairs(name, text)
            elif name == "requeue":
                sent[name] = text == "on"
            elif name == "after":
                sent |= {name: _after(text)} if text.strip() else {}
            elif name in WITHIN:
                whole, part = WITHIN[name]
                if text:
                    sent.setdefault(whole, {})[part] = text
            elif text or name in ("command", "team"):
                sent[name] = _figure(text) if name in NUMBERS else text
        return sent | self._topology()

    def _topology(self) -> dict[str, Any]:
        level, how = (self.values.get(name, "") for name in TOPOLOGY)
        return {"topology": {how or "preferred": level}} if level else {}

    def refuse(self, why: SchedulingError) -> None:
        """Take a refusal to the fields it names; what names none stands above the form."""
        for name, sentence in why.fields.items():
            at = _SHOWN_AT.get(name, name)
            if at in NAMES:
                self.errors.setdefault(at, sentence)
        self.refused = "" if self.errors else f"{why.cause} {why.next_step}"

    def _filled(self, one: Field) -> Field:
        return replace(
            one,
            value=self.values.get(one.name, ""),
            error=self.errors.get(one.name, ""),
            choices=self.choices.get(one.name, one.choices),
        )

    def _pairs(self, name: str, text: str) -> dict[str, str]:
        pairs = {}
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            key, equals, value = line.partition("=")
            if not equals:
                self.errors[name] = f"Line {number} has no “=”: write NAME=value."
                continue
            key = key.strip()
            if key in pairs:
                self.errors[name] = f"Line {number} gives {key[:80]} a second time; keep one."
            pairs[key] = self._value(name, number, value)
        return pairs

    def _value(self, name: str, number: int, value: str) -> str:
        if not value.startswith('"'):
            return value
        try:
            read = json.loads(value)
        except ValueError:
            read = None
        if not isinstance(read, str):
            self.errors[name] = f"The value in line {number} begins with a quote and is not JSON."
            return ""
        return read


def typed(sent: Mapping[str, str], choices: Mapping[str, Choices]) -> OrderForm:
    """A form as the browser sent it: line ends are made \\n, a missing check box is off."""
    values = {name: sent.get(name, "").replace("\r\n", "\n") for name in NAMES}
    key = sent.get("key", "").replace("\0", "")[:64]
    return OrderForm(values, choices, key=key or uuid.uuid4().hex)


def blank(choices: Mapping[str, Choices]) -> OrderForm:
    """A form with the defaults."""
    values = {one.name: one.default for group in GROUPS for one in group.fields}
    for name in ("team", "pool"):
        values[name] = next((value for value, _ in choices.get(name, ())), "")
    return OrderForm(values, choices)


def copied(job: Job, choices: Mapping[str, Choices], changes: Mapping[str, str]) -> OrderForm:
    """A form that asks for what ``job`` asked for, with single ``changes``."""
    values = {
        "name": job.name,
        "team": job.team.name,
        "command": job.command,
        "workdir": job.workdir,
        "gpu_model": job.gpu_model,
        "gpus": str(job.gpus),
        "nodes": str(job.nodes),
        "gpu_memory_gib": _whole_gib(job.gpu_memory_mib),
        "gpu_memory_limit_gib": _whole_gib(job.gpu_memory_limit_mib),
        "gpu_capability": f"{job.gpu_capability / 10:.1f}" if job.gpu_capability else "",
        "level": job.topology_level,
        "nearness": "required" if job.topology_required else "preferred",
        **{axis: _number(job.parallelism.get(axis)) for axis in AXES},
        "cpus": _number(job.cpus),
        "memory_gib": _whole_gib(job.memory_mib),
        "disk_gib": _number(job.disk_gib),
        "pool": job.pool.name,
        "labels": _lines(job.labels),
        "time_limit": _short(job.time_limit_s),
        "priority": job.priority_class.name,
        "grace_s": str(job.grace_s),
        "signal": job.stop_signal,
        "signal_to": job.signal_to,
        "interval_s": _short(job.checkpoint_interval_s) if job.checkpoint_interval_s else "",
        "begin_at": job.begin_at.isoformat() if job.begin_at else "",
        "after": _followed(job),
        "requeue": "on" if job.requeue else "",
        "env": _lines(job.env),
        "launch": job.launch,
        "device_ids": job.device_ids,
    }
    values |= {name: text for name, text in changes.items() if name in NAMES}
    return OrderForm(values, choices)


def _figure(text: str) -> str | float:
    """A number with a fraction as one; whatever else was typed is for ``orders`` to judge."""
    text = text.strip()
    whole, point, rest = text.partition(".")
    return (
        float(text) if point and f"{whole}{rest}".isascii() and f"{whole}{rest}".isdigit() else text
    )


def _after(text: str) -> Any:
    """ "12, 13" or "any 12, 13" as the field of an order; else what was typed, to be refused."""
    kind, _, rest = text.strip().partition(" ")
    listed = (rest if kind == "any" else text).replace("#", "").split(",")
    if not all(one.strip().isascii() and one.strip().isdigit() for one in listed):
        return text
    ids = [int(one.strip()[:19]) for one in listed]
    return {"jobs": ids, "end": "any"} if kind == "any" else ids


def _followed(job: Job) -> str:
    ids = ", ".join(str(id) for id in job.after)
    return f"any {ids}" if ids and job.after_any else ids


def _number(value: int | None) -> str:
    return str(value) if value else ""


def _whole_gib(mib: int | None) -> str:
    """GiB as typed; an odd amount of MiB keeps its fraction."""
    return f"{mib / 1024:g}" if mib else ""


def _short(seconds: int) -> str:
    """A duration as people type it: "48h", "90m", "75s"."""
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _lines(pairs: Mapping[str, str]) -> str:
    """Pairs as lines that read back to the same; what would not is written as JSON."""
    return "\n".join(f"{name}={_quoted(value)}" for name, value in pairs.items())


def _quoted(value: str) -> str:
    odd = value.startswith('"') or any(sign in value for sign in "\r\n")
    return json.dumps(value, ensure_ascii=False) if odd else value


def one_of(names: Iterable[str]) -> Choices:
    """Choices whose words are their values."""
    return tuple((name, name) for name in names)
