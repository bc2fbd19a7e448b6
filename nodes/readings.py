"""A probe's answer, taken apart: whatever a node sends becomes clean values, or nothing.

Pure. The node is not trusted: strings are cut and made storable, numbers kept in bounds, cards
without a proper UUID, doubles and more than `MOST_CARDS` are left out and said in ``odd``. A new
fact is a line in `MACHINE_FACTS` or `CARD_FACTS`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .gpu_models import short

MOST_CARDS = 128
MOST_TEXT = 200
GREATEST = 2_147_483_647
UNEXPLAINED_MIB = 512
UUID = re.compile(r"(GPU|MIG)-[A-Za-z0-9/-]{1,90}")

MACHINE_FACTS = (
    "hostname", "python", "kernel", "uptime_s", "linger", "remove_ipc", "disk_free_gib",
    "filesystem",
)  # fmt: skip
CARD_FACTS = (
    "temperature_c", "power_w", "utilization_pct", "serial",
    "recovery_action", "ecc_uncorrected", "remapped_uncorrectable", "remap_pending",
    "remap_failed", "shutdown_c", "clocks_reasons", "pcie_width", "pcie_width_max", "pcie_gen",
    "pcie_gen_max", "pcie_replays",
)  # fmt: skip
MOST_LINES = 64


@dataclass(frozen=True)
class CardReading:
    """One card as its node saw it; ``foreign_use`` is empty when nobody else uses it."""

    uuid: str
    index: int
    model: str
    product: str
    memory_mib: int
    used_mib: int
    pci_bus_id: str
    compute_capability: str
    foreign_use: str
    facts: dict[str, Any] = field(compare=False)


@dataclass(frozen=True)
class Readings:
    """One node's probe. ``odd`` says in words what was left out."""

    cards: tuple[CardReading, ...]
    cpus: int
    memory_mib: int
    disk_gib: int
    boot_id: str
    facts: dict[str, Any]
    odd: tuple[str, ...]
    kernel_lines: tuple[str, ...] = ()
    kernel_cursor: int | None = None


def read(answer: dict[str, Any]) -> Readings:
    """Take a probe's ``ok`` apart. Never raises, whatever the node sent; at most 128 cards."""
    node = _dict(answer.get("node"))
    odd: list[str] = []
    cards = tuple(_cards(answer.get("gpus"), odd))
    facts = {name: _fact(node.get(name)) for name in MACHINE_FACTS}
    facts["driver"] = _fact(answer.get("driver"))
    facts["nvml_error"] = {
        name: _fact(value)
        for name, value in _dict(answer.get("nvml_error")).items()
        if name in ("code", "cause", "next_step")
    } or None
    kernel = _dict(answer.get("kernel"))
    facts["kernel_log_error"] = _fact(kernel.get("error"))
    facts["loadavg"] = [_fact(load) for load in _list(node.get("loadavg"))[:3]]
    facts["odd"] = odd[:8]
    return Readings(
        cards=cards,
        cpus=_count(node.get("cpus")) or 0,
        memory_mib=_count(node.get("memory_mib")) or 0,
        disk_gib=_count(node.get("disk_total_gib")) or 0,
        boot_id=_text(node.get("boot_id"), 64),
        facts=facts,
        odd=tuple(odd),
        kernel_lines=tuple(
            line for one in _list(kernel.get("lines"))[-MOST_LINES:] if (line := _text(one, 300))
        ),
        kernel_cursor=_count(kernel.get("cursor")),
    )


def _cards(gpus: Any, odd: list[str]) -> Iterator[CardReading]:
    given = _list(gpus)
    if len(given) > MOST_CARDS:
        odd.append(f"{len(given)} cards were reported; the first {MOST_CARDS} are taken.")
    seen: set[str] = set()
    for place, gpu in enumerate(given[:MOST_CARDS]):
        card = _card(_dict(gpu), place)
        if card is None:
            odd.append(f"Card {place} has no proper UUID or memory size.")
        elif card.uuid in seen:
            odd.append(f"Card {place} repeats the UUID {card.uuid}.")
        else:
            seen.add(card.uuid)
            yield card


def _card(gpu: dict[str, Any], place: int) -> CardReading | None:
    uuid = gpu.get("uuid")
    memory_mib, index = _count(gpu.get("memory_mib")), _count(gpu.get("index"))
    if not isinstance(uuid, str) or not UUID.fullmatch(uuid) or not memory_mib:
        return None
    used_mib = _count(gpu.get("used_mib")) or 0
    product = _text(gpu.get("model"), 96) or "unknown"
    facts = {name: _fact(gpu.get(name)) for name in CARD_FACTS}
    errors = list(_dict(gpu.get("errors")).items())[:16]
    facts["errors"] = {_text(name, 63): _fact(value) for name, value in errors}
    return CardReading(
        uuid=uuid,
        index=place if index is None or index > 32767 else index,
        model=short(product),
        product=product,
        memory_mib=memory_mib,
        used_mib=used_mib,
        pci_bus_id=_text(gpu.get("pci_bus_id"), 32),
        compute_capability=_text(gpu.get("compute_capability"), 8),
        foreign_use=_foreign_use(gpu, used_mib),
        facts=facts,
    )


def _foreign_use(gpu: dict[str, Any], used_mib: int) -> str:
    processes = [_dict(process) for process in _list(gpu.get("processes"))]
    foreign = [process for process in processes if process.get("run") is None]
    if foreign:
        more = f"; and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        return "; ".join(_who(process) for process in foreign[:3]) + more
    if not processes and used_mib > UNEXPLAINED_MIB:
        return f"{used_mib} MiB in use, and no process of this node's runs is seen on the card"
    return ""


def _who(process: dict[str, Any]) -> str:
    user = _text(process.get("user"), 32) or f"uid {_count(process.get('uid'))}"
    name, used_mib = _text(process.get("name"), 48), _count(process.get("used_mib"))
    words = f"{user}, pid {_count(process.get('pid'))}" + (f" ({name})" if name else "")
    return words + (f", {used_mib} MiB" if used_mib is not None else "")


def _fact(value: Any) -> Any:
    """A value as it may stand in JSON: a short string, a finite number, true, false or null."""
    if isinstance(value, str):
        return _text(value, MOST_TEXT)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)) and abs(value) <= 1e15:  # false for NaN too
        return value
    return None


def _text(value: Any, most: int) -> str:
    """A string that PostgreSQL stores: no NUL, no lone surrogates, at most ``most`` characters."""
    if not isinstance(value, str):
        return ""
    return value[:most].replace("\0", "").encode("utf-8", "replace").decode()


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= GREATEST else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
