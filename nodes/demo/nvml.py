"""A look-alike of the pynvml module over a JSON file, for demo nodes and tests.

Owns the functions, structures and exceptions of nvidia-ml-py that the probe uses; it reads the file
named by GANGWAY_FAKE_NVML again whenever that changes. Never imports anything of the project and
runs on Python 3.8 and later: it is loaded from its path by whatever python3 the node has.
Another NVML function: add it here under its own name, and its field to `card` and `default_state`.

The file holds {"driver", "gpus": [card...], "hang_s", "error"}; a card holds "uuid", "name",
"memory_mib", "used_mib", "processes": [{"pid", "used_mib"}], "temperature_c", "power_w",
"utilization_pct", "pci_bus_id", "compute_capability": [9, 0], "mig": null or true, what `plain`
below names, "recovery_action", and "errors": {function name without "nvmlDeviceGet": NVML error
number}. "error" is a number that nvmlInit fails with, "kernel_log" a list of lines; "hang_s" is
waited before every answer of a device.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

MIB = 1024 * 1024
STATE = "GANGWAY_FAKE_NVML"

NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_UNKNOWN = 999
NVML_TEMPERATURE_GPU = 0
nvmlMemory_v2 = 0x02000028

WORDS = {
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    9: "Driver Not Loaded",
    10: "Timeout",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    15: "GPU is lost",
    16: "GPU requires restart",
    18: "RM has detected an NVML/RM version mismatch.",
}


class NVMLError(Exception):
    """As in pynvml: `value` is NVML's number, the text its sentence."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return WORDS.get(self.value, "Unknown Error")


class NVMLError_NotSupported(NVMLError):
    """What a card without the asked feature answers; pynvml has a class for each number."""


def error(value: int) -> NVMLError:
    return (NVMLError_NotSupported if value == NVML_ERROR_NOT_SUPPORTED else NVMLError)(value)


class Memory(NamedTuple):
    """Bytes, as NVML gives them."""

    total: int
    free: int
    used: int


class Running(NamedTuple):
    """A compute process on a card."""

    pid: int
    usedGpuMemory: int | None


class Pci(NamedTuple):
    """The part of NVML's PCI record that is asked for."""

    busId: str


class Rates(NamedTuple):
    """Percent of the last sample period."""

    gpu: int
    memory: int


def default_state(model: str, memory_mib: int, cards: int, seed: str) -> dict[str, Any]:
    """A healthy, idle node; the same seed gives the same UUIDs on every call and machine."""
    numbers = random.Random(seed)  # noqa: S311 - stable, not secret
    return {
        "driver": "580.95.05",
        "error": None,
        "hang_s": 0,
        "gpus": [card(model, memory_mib, index, numbers) for index in range(cards)],
    }


def card(model: str, memory_mib: int, index: int, numbers: random.Random) -> dict[str, Any]:
    return {
        "uuid": f"GPU-{uuid.UUID(int=numbers.getrandbits(128), version=4)}",
        "name": model,
        "memory_mib": memory_mib,
        "used_mib": 0,
        "processes": [],
        "temperature_c": numbers.randint(31, 38),
        "power_w": numbers.randint(66, 78),
        "utilization_pct": 0,
        "pci_bus_id": f"00000000:{0x18 + index * 0x0B:02X}:00.0",
        "compute_capability": [9, 0],
        "mig": None,
        "errors": {},
    }


class State:
    """The file as last read; a missing or broken one stands for eight idle cards."""

    def __init__(self) -> None:
        self.stamp: object = None
        self.open = False
        self.facts = default_state("NVIDIA H100 80GB HBM3", 81559, 8, "gangway")

    def now(self) -> dict[str, Any]:
        path = Path(os.environ.get(STATE, ""))
        try:
            found = path.stat()
            stamp = (str(path), found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp != self.stamp:
                self.facts = json.loads(path.read_text())
                self.stamp = stamp
        except (OSError, ValueError):
            pass  # as last read: a file being written is read whole the next time
        return self.facts


STATE_NOW = State()


def nvmlInit() -> None:
    number = STATE_NOW.now().get("error")
    if number:
        raise error(number)
    STATE_NOW.open = True


def nvmlShutdown() -> None:
    STATE_NOW.open = False


def gpus() -> list[dict[str, Any]]:
    facts = STATE_NOW.now()
    if not STATE_NOW.open:
        raise error(NVML_ERROR_UNINITIALIZED)
    if facts.get("error"):
        raise error(facts["error"])
    found: list[dict[str, Any]] = facts["gpus"]
    return found


def asked(handle: int, function: str) -> dict[str, Any]:
    """The card behind a handle, after its hanging and its errors have had their say."""
    found = gpus()[handle]
    time.sleep(STATE_NOW.facts.get("hang_s", 0))
    number = found.get("errors", {}).get(function)
    if number:
        raise error(number)
    return found


def nvmlSystemGetDriverVersion() -> str:
    gpus()
    return str(STATE_NOW.facts["driver"])


def nvmlDeviceGetCount() -> int:
    return len(gpus())


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    if not 0 <= index < len(gpus()):
        raise error(NVML_ERROR_INVALID_ARGUMENT)
    asked(index, "HandleByIndex")
    return index


def nvmlDeviceGetHandleByUUID(name: str) -> int:
    for index, found in enumerate(gpus()):
        if found["uuid"] == name:
            return index
    raise error(NVML_ERROR_NOT_FOUND)


def nvmlDeviceGetUUID(handle: int) -> str:
    return str(asked(handle, "UUID")["uuid"])


def nvmlDeviceGetName(handle: int) -> str:
    return str(asked(handle, "Name")["name"])


def nvmlDeviceGetPciInfo(handle: int) -> Pci:
    return Pci(str(asked(handle, "PciInfo")["pci_bus_id"]))


def nvmlDeviceGetMemoryInfo(handle: int, version: int | None = None) -> Memory:
    found = asked(handle, "MemoryInfo")
    total, used = found["memory_mib"] * MIB, found["used_mib"] * MIB
    return Memory(total, total - used, used)


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[Running]:
    found = asked(handle, "ComputeRunningProcesses")
    return [Running(each["pid"], each.get("used_mib", 0) * MIB) for each in found["processes"]]


def nvmlDeviceGetCudaComputeCapability(handle: int) -> tuple[int, int]:
    major, minor = asked(handle, "CudaComputeCapability")["compute_capability"]
    return major, minor


def nvmlDeviceGetMigMode(handle: int) -> tuple[int, int]:
    mode = asked(handle, "MigMode").get("mig")
    if mode is None:
        raise error(NVML_ERROR_NOT_SUPPORTED)
    return int(bool(mode)), int(bool(mode))


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:
    return int(asked(handle, "Temperature")["temperature_c"])


def nvmlDeviceGetPowerUsage(handle: int) -> int:
    """Milliwatts, as NVML gives them."""
    return int(asked(handle, "PowerUsage")["power_w"] * 1000)


def nvmlDeviceGetUtilizationRates(handle: int) -> Rates:
    return Rates(int(asked(handle, "UtilizationRates")["utilization_pct"]), 0)


class Field(NamedTuple):
    """One answer of GetFieldValues: the call succeeds while fields of it fail."""

    nvmlReturn: int
    value: Any


class Value(NamedTuple):
    """The union of a field's value, as far as it is read."""

    uiVal: int


def nvmlDeviceGetFieldValues(handle: int, wanted: list[int]) -> list[Field]:
    found = asked(handle, "FieldValues")
    known = {230: found.get("recovery_action", 0)}
    return [Field(0 if f in known else 3, Value(known.get(f, 0))) for f in wanted]


def plain(function: str, name: str, usual: Any) -> Any:
    """A function of a card that answers what its state says under `name`."""
    return lambda handle, *more: asked(handle, function).get(name, usual)


nvmlDeviceGetSerial = plain("Serial", "serial", "")
nvmlDeviceGetTotalEccErrors = plain("TotalEccErrors", "ecc_uncorrected", 0)
nvmlDeviceGetRemappedRows = plain("RemappedRows", "remapped", (0, 0, 0, 0))
nvmlDeviceGetTemperatureThreshold = plain("TemperatureThreshold", "shutdown_c", 95)
nvmlDeviceGetCurrentClocksEventReasons = plain("CurrentClocksEventReasons", "clocks_reasons", 1)
nvmlDeviceGetCurrPcieLinkWidth = plain("CurrPcieLinkWidth", "pcie_width", 16)
nvmlDeviceGetMaxPcieLinkWidth = plain("MaxPcieLinkWidth", "pcie_width_max", 16)
nvmlDeviceGetCurrPcieLinkGeneration = plain("CurrPcieLinkGeneration", "pcie_gen", 5)
nvmlDeviceGetMaxPcieLinkGeneration = plain("MaxPcieLinkGeneration", "pcie_gen_max", 5)
nvmlDeviceGetPcieReplayCounter = plain("PcieReplayCounter", "pcie_replays", 0)


def pretended_kernel_log(cursor: int) -> dict[str, Any]:
    """The lines of the state's "kernel_log" after a cursor; lines are numbered from 0."""
    lines = STATE_NOW.now().get("kernel_log", [])
    return {"cursor": len(lines) - 1, "lines": lines[cursor + 1 :], "error": None}
