"""What NVML says of a card's condition: errors counted, memory repaired, heat, links.

Owns these readings alone; nvml.py makes the calls with the others. A card that lacks a feature
says null: that is no error worth keeping. A new reading is a line of `CONDITION`, one in
docs/node-protocol.md and, to mean anything, a rule of the portal.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

Fact = Dict[str, Any]
Reading = Tuple[Callable[[Any, Any], Fact], Tuple[str, ...]]

RECOVERY_ACTION = 230
UNCORRECTED, VOLATILE = 1, 0
SHUTDOWN = 0


def optional(read: Callable[[Any, Any], Fact], *names: str) -> Reading:
    """A reading whose names are null where the card or the driver has no such thing."""

    def tried(nvml: Any, handle: Any) -> Fact:
        try:
            return read(nvml, handle)
        except AttributeError:  # an older pynvml has no such function
            return dict.fromkeys(names)
        except nvml.NVMLError as refused:
            if refused.value in (3, 13):  # not supported by the card; not known to the driver
                return dict.fromkeys(names)
            raise

    return tried, names


def recovery(nvml: Any, handle: Any) -> Fact:
    (field,) = nvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_ACTION])
    # the call succeeds while fields of it fail
    return {"recovery_action": int(field.value.uiVal) if field.nvmlReturn == 0 else None}


def uncorrected(nvml: Any, handle: Any) -> Fact:
    count = nvml.nvmlDeviceGetTotalEccErrors(handle, UNCORRECTED, VOLATILE)
    return {"ecc_uncorrected": int(count)}


def remapped(nvml: Any, handle: Any) -> Fact:
    _, uncorrectable, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)[:4]
    return {
        "remapped_uncorrectable": int(uncorrectable),
        "remap_pending": bool(pending),
        "remap_failed": bool(failed),
    }


def shutdown(nvml: Any, handle: Any) -> Fact:
    return {"shutdown_c": int(nvml.nvmlDeviceGetTemperatureThreshold(handle, SHUTDOWN))}


def clocks(nvml: Any, handle: Any) -> Fact:
    newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    ask = newer or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return {"clocks_reasons": int(ask(handle))}


def link(nvml: Any, handle: Any) -> Fact:
    return {
        "pcie_width": int(nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "pcie_width_max": int(nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "pcie_gen": int(nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        "pcie_gen_max": int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
    }


def replays(nvml: Any, handle: Any) -> Fact:
    return {"pcie_replays": int(nvml.nvmlDeviceGetPcieReplayCounter(handle))}


def serial(nvml: Any, handle: Any) -> Fact:
    return {"serial": str(nvml.nvmlDeviceGetSerial(handle))}


CONDITION: Tuple[Reading, ...] = (
    optional(recovery, "recovery_action"),
    optional(uncorrected, "ecc_uncorrected"),
    optional(remapped, "remapped_uncorrectable", "remap_pending", "remap_failed"),
    optional(shutdown, "shutdown_c"),
    optional(clocks, "clocks_reasons"),
    optional(link, "pcie_width", "pcie_width_max", "pcie_gen", "pcie_gen_max"),
    optional(replays, "pcie_replays"),
    optional(serial, "serial"),
)
