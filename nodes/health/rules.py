"""The rules, a row each: what is looked at, how often, what it means, what to do, how it clears.

docs/health-rules.md shows the same rows; a test compares the two. A new rule is a new row. The
worst verdict of the rules that hold is the card's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import xids
from .looks import Look

OK, WATCH, DEGRADED, FAILED = "ok", "watch", "degraded", "failed"
WORST_LAST = (OK, WATCH, DEGRADED, FAILED)
BY_HAND = 0  # holds until somebody requalifies the card
# What the driver's field 230 asks for. It speaks first: who made the card knows it best.
RECOVERY = {
    1: "a GPU reset",
    2: "a reboot of the node",
    3: "draining its peer-to-peer traffic",
    4: "draining and a reset",
    5: "recovering its IMEX domain",
    6: "a bus reset",
    7: "a reboot of the system",
}
HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
NEAR_SHUTDOWN_C = 3
MANY_REMAPS = 512
LOADED_PCT = 50

Says = Callable[[Look, Mapping[int, str]], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row. ``says`` gives the evidence in words, empty when the rule does not hold.

    ``needs`` looks in a row must hold before it counts, and ``clears`` in a row must not before it
    ends (BY_HAND: only requalification ends it).
    """

    name: str
    verdict: str
    needs: int
    clears: int
    signal: str
    advice: str
    source: str
    says: Says


def _xid(of: str) -> Says:
    def says(look: Look, own: Mapping[int, str]) -> str:
        found = [one for one in look.xids if xids.class_of(one.number, own) == of]
        return "; ".join(f"Xid {one.number}: {one.words}" for one in found[:3])

    return says


def _recovery(actions: frozenset[int]) -> Says:
    def says(look: Look, own: Mapping[int, str]) -> str:
        action = look.number("recovery_action")
        return f"The driver asks for {RECOVERY[action]}." if action in actions else ""

    return says


def _gone(look: Look, own: Mapping[int, str]) -> str:
    return "The driver answers and does not have this card any more." if look.gone else ""


def _remap_failed(look: Look, own: Mapping[int, str]) -> str:
    return "A memory row could not be remapped." if look.facts.get("remap_failed") is True else ""


def _remap_pending(look: Look, own: Mapping[int, str]) -> str:
    pending = look.facts.get("remap_pending") is True
    return "A memory row is remapped at the next reset." if pending else ""


def _many_remaps(look: Look, own: Mapping[int, str]) -> str:
    rows = look.number("remapped_uncorrectable")
    over = rows is not None and rows >= MANY_REMAPS
    return f"{rows} rows are remapped after errors; {MANY_REMAPS} are the most." if over else ""


def _uncorrected(look: Look, own: Mapping[int, str]) -> str:
    more = look.deltas.get("ecc_uncorrected", 0)
    return f"{more} memory errors that could not be corrected since the last look." if more else ""


def _reasons(bits: int, what: str) -> Says:
    def says(look: Look, own: Mapping[int, str]) -> str:
        reasons = look.number("clocks_reasons")
        held = reasons is not None and reasons & bits
        return f"{what} (clock reasons 0x{reasons:x})." if held else ""

    return says


def _near_shutdown(look: Look, own: Mapping[int, str]) -> str:
    now_c, off_c = look.number("temperature_c"), look.number("shutdown_c")
    if now_c is None or off_c is None or off_c <= 0 or now_c < off_c - NEAR_SHUTDOWN_C:
        return ""
    return f"It is at {now_c} °C and powers off at {off_c} °C."


def _narrow(look: Look, own: Mapping[int, str]) -> str:
    now, most = look.number("pcie_width"), look.number("pcie_width_max")
    if not now or not most or now >= most:
        return ""
    return f"Its PCIe link has {now} lanes of {most}."


def _slow_link(look: Look, own: Mapping[int, str]) -> str:
    now, most = look.number("pcie_gen"), look.number("pcie_gen_max")
    loaded = (look.number("utilization_pct") or 0) > LOADED_PCT
    # An idle link saves power by running slower.
    if not loaded or not now or not most or now >= most:
        return ""
    return f"Its PCIe link runs at generation {now} of {most} under load."


RULES: tuple[Rule, ...] = (
    Rule(
        "recovery-action", FAILED, 1, 3,
        "the driver's recovery action (field 230): reset or reboot",
        "Do what the driver asks for, then requalify the card.",
        "NVML field 230", _recovery(frozenset({1, 2, 4, 6, 7})),
    ),
    Rule(
        "recovery-drain", DEGRADED, 1, 3,
        "the driver's recovery action (field 230): drain or recover the fabric",
        "Let its jobs end, then do what the driver asks for.",
        "NVML field 230", _recovery(frozenset({3, 5})),
    ),
    Rule(
        "xid-failed", FAILED, 1, BY_HAND,
        "an Xid of class failed in the kernel log",
        "Reset the card (79: reboot the node), then requalify it. If it comes again, replace it.",
        "NVIDIA Xid catalogue", _xid(xids.FAILED),
    ),
    Rule(
        "card-gone", FAILED, 2, 2,
        "a known card that the driver does not list",
        "Look for Xid 79 in the kernel log; power-cycle the node. If it comes again, replace it.",
        "NVIDIA Xid 79; GPUd", _gone,
    ),
    Rule(
        "xid-degraded", DEGRADED, 1, BY_HAND,
        "an Xid of class degraded in the kernel log",
        "Let its jobs end, reset the card, then requalify it.",
        "NVIDIA Xid catalogue", _xid(xids.DEGRADED),
    ),
    Rule(
        "xid-watch", WATCH, 1, 2880,
        "an Xid of class watch, or one that is not listed",
        "Nothing yet; it is placed last for a day.",
        "NVIDIA Xid catalogue", _xid(xids.WATCH),
    ),
    Rule(
        "remap-failed", FAILED, 1, BY_HAND,
        "row remapping failed",
        "Reset the card; if it still says so, ask for a replacement.",
        "NVML remapped rows; DCGM", _remap_failed,
    ),
    Rule(
        "remap-pending", DEGRADED, 2, 2,
        "row remapping pending",
        "Let its jobs end, then reset the card: programs elsewhere on it go on correctly.",
        "NVML remapped rows", _remap_pending,
    ),
    Rule(
        "remap-many", DEGRADED, 2, BY_HAND,
        f"{MANY_REMAPS} rows remapped or more",
        "Ask for a replacement: no spare rows are left.",
        "DCGM", _many_remaps,
    ),
    Rule(
        "ecc-uncorrected", DEGRADED, 1, BY_HAND,
        "uncorrected memory errors, more than at the last look of this boot",
        "Let its jobs end, reset the card, then requalify it.",
        "DCGM; Meta gcm", _uncorrected,
    ),
    Rule(
        "near-shutdown", FAILED, 2, 60,
        f"temperature within {NEAR_SHUTDOWN_C} °C of the card's own shutdown limit",
        "Check fans and airflow now: the card is about to power off.",
        "NVML thresholds", _near_shutdown,
    ),
    Rule(
        "hw-slowdown", DEGRADED, 6, 60,
        "hardware slowdown, hardware thermal slowdown or power brake",
        "Check cooling and power of the node.",
        "NVML clock event reasons; GPUd",
        _reasons(HW_SLOWDOWN | HW_THERMAL | POWER_BRAKE, "The hardware slows it down"),
    ),
    Rule(
        "sw-thermal", WATCH, 12, 20,
        "slowed down by the driver because it is hot",
        "Check fans and airflow.",
        "NVML clock event reasons", _reasons(SW_THERMAL, "The driver slows it down: it is hot"),
    ),
    Rule(
        "pcie-width", DEGRADED, 3, 3,
        "fewer PCIe lanes than the card and slot have",
        "Let its jobs end, then reseat the card or its riser.",
        "Azure node checks", _narrow,
    ),
    Rule(
        "pcie-gen", WATCH, 20, 3,
        "a slower PCIe generation than possible, under load",
        "Watch it; reseat the card if it stays.",
        "NVML", _slow_link,
    ),
)  # fmt: skip
