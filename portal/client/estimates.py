"""``gangway estimate``: its options, and its answer as text."""

import argparse
import json
from argparse import Namespace

from . import show
from .client import Client, Json

_NUMBERS = (
    ("zero", "stage of ZeRO, 0 to 3; 3 is FSDP"),
    ("tp", "tensor parallel"),
    ("pp", "pipeline stages"),
    ("dp", "copies of the model"),
    ("sequence", "tokens of a sequence"),
    ("batch", "micro-batch of one copy"),
    ("hidden", "width of the model"),
    ("layers", "of the model"),
    ("heads", "of attention"),
    ("headroom-percent", "10 to 20 (15)"),
    ("card-gb", "memory of a card (80)"),
    ("request-gib", "what you mean to ask for of a card"),
)
_WORDS = (
    ("precision", ["bf16", "fp16", "fp32"]),
    ("optimizer", ["adamw", "adamw_8bit", "sgd_momentum", "sgd"]),
    ("recompute", ["none", "selective", "full"]),
    ("offload", ["none", "optimizer", "parameters"]),
)
GB = 10**9


def add_options(verb: argparse.ArgumentParser) -> None:
    """What is known of the training run."""
    verb.add_argument("parameters", help="how many, such as 7B")
    for name, told in _NUMBERS:
        verb.add_argument(f"--{name}", type=int, help=told)
    for name, choices in _WORDS:
        verb.add_argument(f"--{name}", choices=choices)
    verb.add_argument("--master-weights", action="store_true", help="an FP32 copy is kept")


def run(options: Namespace) -> int:
    """Ask the portal and print what it says."""
    names = ["parameters", "master_weights", *(name for name, _ in (*_NUMBERS, *_WORDS))]
    given = {name.replace("-", "_"): None for name in names}
    given = {name: getattr(options, name) for name in given}
    found = Client().estimate({n: v for n, v in given.items() if v is not None and v is not False})
    show.say(json.dumps(found) if options.json else text(found))
    return 0


def text(found: Json) -> str:
    """The answer: sums of one card in GB, what to ask for, what was assumed."""
    card = found["per_card"]
    names = ("weights", "gradients", "optimizer", "activations", "total")
    lines = [f"{name:12} {card[name] / GB:10.2f} GB a card" for name in names]
    if found["host"]:
        lines.append(f"{'in RAM':12} {found['host'] / GB:10.2f} GB in all")
    if found["all_reduce"]:
        most, ring = found["all_reduce"] / GB, found["all_reduce_ring"] / GB
        lines.append(f"{'all-reduce':12} {most:10.2f} GB a step at most, {ring:.2f} GB by a ring")
    lines += ["", found["verdict"], f"Ask for {found['request_gib']} GiB a card."]
    lines += [found["warning"]] if found["warning"] else []
    return "\n".join(show.clean(line) for line in [*lines, "", *found["assumptions"]])
