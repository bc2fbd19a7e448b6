"""What is known of a training run: named fields to a typed ask, or a refusal of every bad field.

Pure. What is left out is derived and named as an assumption. A new field is a row of ``_FIELDS``,
an attribute of ``Ask`` and a row in docs/api.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from scheduling.errors import InvalidOrder

# Bytes of a number of each precision, and of what each optimizer keeps for a parameter.
PRECISIONS = {"bf16": 2, "fp16": 2, "fp32": 4}
OPTIMIZERS = {"adamw": 8, "adamw_8bit": 2, "sgd_momentum": 4, "sgd": 0}
RECOMPUTE = ("none", "selective", "full")
OFFLOAD = ("none", "optimizer", "parameters")
_SIZES = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_PARAMETERS = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?\s*([KMBT])?\Z", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ask:
    """A training run. ``sequence`` and ``batch`` (sequences a replica works on at once) 0: unknown.

    ``hidden`` and ``layers`` 0: derived. ``zero`` is the stage of ZeRO; 3 is FSDP's full sharding.
    """

    parameters: int
    precision: str = "bf16"
    optimizer: str = "adamw"
    master_weights: bool = False
    zero: int = 0
    tp: int = 1
    pp: int = 1
    dp: int = 1
    sequence: int = 0
    batch: int = 0
    hidden: int = 0
    layers: int = 0
    heads: int = 0
    recompute: str = "none"
    offload: str = "none"
    headroom_percent: int = 15
    card_gb: int = 80
    request_gib: int = 0

    @property
    def cards(self) -> int:
        return self.tp * self.pp * self.dp


def parse(fields: Mapping[str, Any]) -> Ask:
    """Read an ask. Raises InvalidOrder whose ``fields`` has one sentence for each bad field."""
    bad = {str(name)[:80]: _unknown(str(name)) for name in fields if name not in _FIELDS}
    values: dict[str, Any] = {}
    for name, read in _FIELDS.items():
        if fields.get(name) not in (None, ""):
            try:
                values[name] = read(fields[name])
            except ValueError as why:
                bad[name] = str(why)
    if "parameters" not in values and "parameters" not in bad:
        bad["parameters"] = "parameters is missing: how many the model has, such as 7B."
    if not bad:
        bad = dict(_at_odds(Ask(**values)))
    if bad:
        first = next(iter(bad.values()))
        raise InvalidOrder(first, next_step="Correct it and ask again.", fields=bad)
    return Ask(**values)


def _at_odds(ask: Ask) -> Iterator[tuple[str, str]]:
    if ask.offload == "parameters" and ask.zero < 3:
        yield "offload", "Parameters can be kept in RAM with zero 3 only. Set zero to 3."
    if bool(ask.sequence) != bool(ask.batch):
        missing = "batch" if ask.sequence else "sequence"
        yield missing, "Activations need both sequence and batch. Give both, or none."
    if bool(ask.hidden) != bool(ask.layers):
        missing = "layers" if ask.hidden else "hidden"
        yield missing, "The shape needs both hidden and layers. Give both, or none."


def _parameters(value: Any) -> int:
    match = _PARAMETERS.match(str(value).strip()) if not isinstance(value, bool) else None
    if not match:
        raise ValueError(f"{str(value)[:40]!r} is not a number of parameters such as 7B or 350M.")
    whole, rest, size = match.groups()
    scale = _SIZES[size.upper()] if size else 1
    count = int(whole) * scale + (int(rest) * scale // 10 ** len(rest) if rest else 0)
    if not 1 <= count <= 10**14:
        raise ValueError(f"{str(value)[:40]} is outside 1 to 100T parameters.")
    return count


def _count(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        text = str(value).strip()
        digits = text.lstrip("0") or "0"
        if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
            raise ValueError(f"{text[:40]!r} is not a whole number from {least} to {most}.")
        if len(digits) > 18 or not least <= int(digits) <= most:
            raise ValueError(f"{text[:40]} is outside {least} to {most}.")
        return int(digits)

    return read


def _choice(*allowed: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"{str(value)[:40]!r} is not one of {', '.join(allowed)}.")
        return str(value)

    return read


def _flag(value: Any) -> bool:
    if value in (True, "true", "on"):
        return True
    if value in (False, "false"):
        return False
    raise ValueError("true or false is needed.")


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "parameters": _parameters,
    "precision": _choice(*PRECISIONS),
    "optimizer": _choice(*OPTIMIZERS),
    "master_weights": _flag,
    "zero": _count(0, 3),
    "tp": _count(1, 100_000),
    "pp": _count(1, 100_000),
    "dp": _count(1, 100_000),
    "sequence": _count(1, 100_000_000),
    "batch": _count(1, 1_000_000),
    "hidden": _count(1, 10_000_000),
    "layers": _count(1, 100_000),
    "heads": _count(1, 1_000_000),
    "recompute": _choice(*RECOMPUTE),
    "offload": _choice(*OFFLOAD),
    "headroom_percent": _count(10, 20),
    "card_gb": _count(1, 10_000),
    "request_gib": _count(1, 10_000),
}
NAMES = tuple(_FIELDS)


def _unknown(name: str) -> str:
    near = get_close_matches(name, NAMES, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{name[:80]!r} is not a field of an estimate. {hint}Valid: {', '.join(NAMES)}."
