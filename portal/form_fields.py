"""Which controls the order form has, in which groups, with which words. Data alone.

A new field of an order is a row here (a test compares them with ``order_fields.FIELDS``); its
``kind`` is a case of templates/jobs/field.html.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.estimate.ask import OFFLOAD, OPTIMIZERS, PRECISIONS, RECOMPUTE
from scheduling.order_fields import AXES, LEVELS, SIGNALS

Choices = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Field:
    """One control. ``kind`` is a case of jobs/_field.html; ``wide`` its columns of 12."""

    name: str
    label: str
    kind: str = "text"
    wide: int = 6
    hint: str = ""
    placeholder: str = ""
    default: str = ""
    choices: Choices = ()
    value: str = ""
    error: str = ""
    required: bool = False

    @property
    def odd(self) -> bool:
        """The value is none of the choices: it is shown all the same, and refused when sent."""
        return bool(self.value) and self.value not in {value for value, _ in self.choices}

    @property
    def told(self) -> str:
        """The ids of what describes the control."""
        return f"{self.name}-error" if self.error else f"{self.name}-hint"


@dataclass(frozen=True, slots=True)
class Group:
    """A numbered block of the form."""

    title: str
    fields: tuple[Field, ...]


def _same(names: Iterable[str]) -> Choices:
    return tuple((name, name) for name in names)


GROUPS = (
    Group(
        "What to run",
        (
            Field("name", "Name", hint="For you; jobs are known by their number."),
            Field("team", "Charge to", "select", required=True),
            Field(
                "command", "Command", "area", 12, required=True,
                placeholder="torchrun train.py --cfg vit.yaml",
                hint="A script of any length up to 256 KiB; its #! line decides, else /bin/sh.",
            ),
            Field(
                "workdir", "Working folder", wide=12, placeholder="/data/vit",
                hint="On the node, must exist there. Empty: a fresh folder of the run.",
            ),
        ),
    ),
    Group(
        "Cards",
        (
            Field("gpu_model", "Model", "cards", 12),
            Field("gpus", "GPUs in all", "number", 3, default="1", required=True),
            Field("nodes", "Nodes", "number", 3, placeholder="fewest",
                  hint="They share the GPUs equally."),
            Field(
                "gpu_memory_gib", "Memory per card, GiB", "number", 6, placeholder="any",
                hint="At least this much on each.",
            ),
        ),
    ),
    Group(
        "How near, how cut",
        (
            Field("level", "Cards in one", "select", 3,
                  choices=(("", "anywhere"), *((name, name) for name in LEVELS))),
            Field("nearness", "How strictly", "select", 3, default="preferred",
                  choices=(("preferred", "rather"), ("required", "only so"))),
            Field("tp", "Tensor parallel", "number", 2, placeholder="1"),
            Field("pp", "Pipeline", "number", 2, placeholder="1"),
            Field("dp", "Data parallel", "number", 2, placeholder="rest",
                  hint="The three multiply to the GPUs."),
            Field("gpu_capability", "Compute capability", wide=6, placeholder="any",
                  hint="At least, such as 8.0."),
            Field("gpu_memory_limit_gib", "Memory limit, GiB", "number", 6, placeholder="none",
                  hint="Told to the program; not below the memory per card."),
        ),
    ),
    Group(
        "Share of the node",
        (
            Field("cpus", "CPU cores", "number", 4, placeholder="fair share",
                  hint="Empty: its share per GPU."),
            Field("memory_gib", "RAM, GiB", "number", 4, placeholder="fair share",
                  hint="Empty: its share per GPU."),
            Field("disk_gib", "Local disk, GiB", "number", 4, placeholder="0",
                  hint="Free on the node."),
            Field("pool", "Pool", "select", 6),
            Field(
                "labels", "Only on nodes labelled", "area", 6, placeholder="fabric=ib",
                hint="One label=value a line.",
            ),
        ),
    ),
    Group(
        "Time and stopping",
        (
            Field("time_limit", "Time limit", wide=4, placeholder="24h",
                  hint="90s, 45m, 48h, 2d12h."),
            Field("priority", "Priority", "select", 4, default="normal"),
            Field("interval_s", "Saves by itself every", wide=4, placeholder="10m",
                  hint="Says what making way would cost."),
            Field("grace_s", "Seconds to save when stopped", "number", 4, placeholder="60",
                  hint="Between the signal and the kill."),
            Field("signal", "Signal that asks it to stop", "select", 4, default="TERM",
                  choices=tuple((name, f"SIG{name}") for name in SIGNALS)),
            Field("signal_to", "Who gets the signal", "select", 4, default="group",
                  choices=(("group", "every process"), ("rank0", "rank 0 alone"))),
            Field("begin_at", "Not before", wide=6, placeholder="2026-12-24T18:00+01:00",
                  hint="A time with its zone. Empty: as soon as it can."),
            Field("after", "After jobs", wide=6, placeholder="12, 13",
                  hint="They have to succeed first; “any 12”: however it ends."),
            Field(
                "requeue", "Run it again when it had to leave or did not start", "check", 12,
                default="on",
                hint="For somebody more urgent, a sick card, a busy node; and after a crash, from "
                "its last complete checkpoint. Else it ends.",
            ),
        ),
    ),
    Group(
        "Environment",
        (
            Field(
                "env", "Variables", "area", 12, placeholder="SEED=1",
                hint='One NAME=value a line. A value in double quotes is read as JSON: "a\\nb".',
            ),
            Field(
                "launch", "Start", "select", 6, default="per_node",
                choices=(
                    ("per_node", "once a node (torchrun starts the rest)"),
                    ("per_gpu", "once a GPU (RANK and LOCAL_RANK are set)"),
                ),
            ),
            Field(
                "device_ids", "Name the cards by", "select", 6, default="uuid",
                choices=(("uuid", "UUID"), ("index", "index, for programs that want numbers")),
            ),
        ),
    ),
)  # fmt: skip
# Beside the form, read by its estimate alone; no fields of an order.
ESTIMATE = (
    Field("e_parameters", "Parameters", wide=6, placeholder="7B"),
    Field("e_zero", "ZeRO stage", "select", 6, choices=(
        ("", "0: none"), ("1", "1: optimizer"), ("2", "2: and gradients"), ("3", "3: all, FSDP"))),
    Field("e_precision", "Precision", "select", 6, choices=_same(PRECISIONS)),
    Field("e_optimizer", "Optimizer", "select", 6, choices=_same(OPTIMIZERS)),
    Field("e_sequence", "Sequence", "number", 6, placeholder="not counted"),
    Field("e_batch", "Micro-batch", "number", 6, placeholder="not counted"),
    Field("e_recompute", "Recompute", "select", 6, choices=_same(RECOMPUTE)),
    Field("e_offload", "Keep in RAM", "select", 6, choices=_same(OFFLOAD)),
)  # fmt: skip
NAMES = tuple(field.name for group in GROUPS for field in group.fields)
# Controls that are a part of one field of the order: that field, and the part's name in it.
CHECKPOINT = {
    "signal": "signal", "signal_to": "to", "grace_s": "grace_s", "interval_s": "interval_s",
}  # fmt: skip
WITHIN = {name: ("checkpoint", part) for name, part in CHECKPOINT.items()} | {
    name: ("parallelism", name) for name in AXES
}
TOPOLOGY = ("level", "nearness")
NUMBERS = frozenset(one.name for group in GROUPS for one in group.fields if one.kind == "number")
