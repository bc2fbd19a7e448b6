"""Reading the cards through a pynvml module: nvidia-ml-py's own, or one with the same functions.

Owns every NVML call. Lives in the warm child only. A field that cannot be read is null and its
error is kept beside it, so one broken sensor hides nothing else.
A new field: one line in `READINGS`, one in docs/node-protocol.md.
"""

from __future__ import annotations

import ctypes
import importlib.util
import pwd
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import kernellog, tree
from .condition import CONDITION

MIB = 1024 * 1024
TEMPERATURE_GPU = 0

Fact = Dict[str, Any]
TROUBLES = {
    "no_module": (
        "The file pynvml.py does not lie beside the zipapp.",
        "Ship the cargo again.",
    ),
    "no_driver": (
        "The NVIDIA driver's library libnvidia-ml.so.1 was not found.",
        "Install the NVIDIA driver on this node, then probe again.",
    ),
    "driver_not_loaded": (
        "The NVIDIA kernel module is not loaded.",
        "Load it (modprobe nvidia) or reboot the node, then probe again.",
    ),
    "version_mismatch": (
        "The NVIDIA kernel module and its library are of different versions.",
        "Reboot the node to finish the driver's update.",
    ),
    "probe_hung": (
        "NVML did not answer in time and its process was killed.",
        "Look at the kernel log for Xid lines; a reboot is often needed.",
    ),
    "probe_died": (
        "The process that asks NVML died.",
        "Probe again; look at the kernel log if it happens twice.",
    ),
    "nvml_failed": (
        "NVML cannot be used.",
        "Run nvidia-smi on the node and act on what it says.",
    ),
}
CODES = {9: "driver_not_loaded", 12: "no_driver", 18: "version_mismatch"}


def trouble(code: str, detail: str = "") -> Fact:
    cause, next_step = TROUBLES[code]
    return {"code": code, "cause": (cause + " " + detail).strip(), "next_step": next_step}


class Cards:
    """NVML opened once; `facts` answers one question."""

    def __init__(self, module: Path, library: Optional[Path]) -> None:
        self.error: Optional[Fact] = None
        self.nvml: Any = None
        self.handles: List[Tuple[int, Any, Optional[str]]] = []
        try:
            self.open(module, library)
        except (OSError, SyntaxError) as broken:
            missing = not module.exists()
            self.error = trouble("no_module" if missing else "nvml_failed", str(broken))

    def open(self, module: Path, library: Optional[Path]) -> None:
        self.nvml = load(module)
        if library is not None:
            self.nvml.nvmlLib = ctypes.CDLL(str(library))
        try:
            self.nvml.nvmlInit()
            self.find()
        except self.nvml.NVMLError as broken:
            self.error = self.named(broken)

    def named(self, broken: Any) -> Fact:
        code = CODES.get(getattr(broken, "value", 0), "nvml_failed")
        return trouble(code, str(broken) if code == "nvml_failed" else "")

    def find(self) -> None:
        """Handles in NVML's order, which is PCI order; a lost card keeps its index."""
        self.handles = []
        for index in range(self.nvml.nvmlDeviceGetCount()):
            try:
                handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
                self.handles.append((index, handle, self.nvml.nvmlDeviceGetUUID(handle)))
            except self.nvml.NVMLError:
                self.handles.append((index, None, None))

    def facts(self, question: Fact) -> Fact:
        """{"nvml_error", "driver", "gpus": [...]} or, for `cards`, {"nvml_error", "cards"}."""
        if self.error is not None:
            return {"nvml_error": self.error, "driver": None, "gpus": [], "cards": {}}
        try:
            if question["ask"] == "cards":
                return {"nvml_error": None, "cards": self.cards(question["uuids"])}
            self.find()
            gpus = [self.gpu(index, handle) for index, handle, _ in self.handles]
            driver = self.nvml.nvmlSystemGetDriverVersion()
            kernel = self.kernel(question.get("kernel_since", -1))
            return {"nvml_error": None, "driver": driver, "gpus": gpus, "kernel": kernel}
        except self.nvml.NVMLError as broken:
            return {"nvml_error": self.named(broken), "driver": None, "gpus": [], "cards": {}}

    def kernel(self, cursor: int) -> Fact:
        """The kernel's log, or what the look-alike module has in its place."""
        pretended = getattr(self.nvml, "pretended_kernel_log", None)
        found: Fact = kernellog.since(cursor) if pretended is None else pretended(cursor)
        return found

    def cards(self, uuids: List[str]) -> Fact:
        if not set(uuids) <= {uuid for _, _, uuid in self.handles}:
            self.find()
        found = {}
        for index, handle, uuid in self.handles:
            if uuid in uuids:
                found[uuid] = self.fields(index, handle, USE)
        return found

    def gpu(self, index: int, handle: Any) -> Fact:
        if handle is not None:
            return self.fields(index, handle, USE + READINGS + CONDITION)
        fact = self.fields(index, None, ())
        for _, names in USE + READINGS + CONDITION:
            fact.update(dict.fromkeys(names))
        fact["processes"] = []
        try:
            self.nvml.nvmlDeviceGetHandleByIndex(index)
        except self.nvml.NVMLError as broken:
            fact["errors"]["handle"] = str(broken)
        return fact

    def fields(self, index: int, handle: Any, readings: Tuple[Reading, ...]) -> Fact:
        fact: Fact = {"index": index, "errors": {}}
        for read, names in readings:
            try:
                values = read(self.nvml, handle)
            except self.nvml.NVMLError as broken:
                values = {name: [] if name == "processes" else None for name in names}
                fact["errors"].update(dict.fromkeys(names, str(broken)))
            fact.update(values)
        return fact


def load(module: Path) -> Any:
    """The module from its file, under the name pynvml; Python keeps its bytecode beside it."""
    spec = importlib.util.spec_from_file_location("pynvml", str(module))
    if spec is None or spec.loader is None:
        raise OSError("{} is no Python module".format(module))
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["pynvml"] = loaded  # nvidia-ml-py looks itself up there
    spec.loader.exec_module(loaded)
    return loaded


def memory(nvml: Any, handle: Any) -> Fact:
    try:
        # version 2 keeps the driver's own reserve apart from what is used
        found = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError:  # an older driver knows version 1 alone
        found = nvml.nvmlDeviceGetMemoryInfo(handle)
    return {"memory_mib": found.total // MIB, "used_mib": found.used // MIB}


def processes(nvml: Any, handle: Any) -> Fact:
    found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return {"processes": [process(each.pid, each.usedGpuMemory) for each in found]}


def process(pid: int, used: Optional[int]) -> Fact:
    uid = tree.owner_of(pid)
    return {
        "pid": pid,
        "uid": uid if uid >= 0 else None,
        "user": user_name(uid),
        "name": process_name(pid),
        "used_mib": None if used is None else used // MIB,
        "run": tree.run_of(pid),
    }


def user_name(uid: int) -> Optional[str]:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def process_name(pid: int) -> Optional[str]:
    try:
        with open("/proc/{}/comm".format(pid), errors="replace") as file:  # noqa: PTH123 - as owner_of
            return file.read().strip()
    except OSError:
        return None


def capability(nvml: Any, handle: Any) -> Fact:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return {"compute_capability": "{}.{}".format(major, minor)}


def mig(nvml: Any, handle: Any) -> Fact:
    try:
        current, pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError_NotSupported:
        return {"mig": None}  # most models have none: no error worth keeping
    return {"mig": {"enabled": bool(current), "pending": bool(pending)} if current else None}


Reading = Tuple[Callable[[Any, Any], Fact], Tuple[str, ...]]
USE: Tuple[Reading, ...] = (
    (lambda nvml, h: {"uuid": nvml.nvmlDeviceGetUUID(h)}, ("uuid",)),
    (memory, ("memory_mib", "used_mib")),
    (processes, ("processes",)),
)
READINGS: Tuple[Reading, ...] = (
    (lambda nvml, h: {"model": nvml.nvmlDeviceGetName(h)}, ("model",)),
    (lambda nvml, h: {"pci_bus_id": nvml.nvmlDeviceGetPciInfo(h).busId}, ("pci_bus_id",)),
    (capability, ("compute_capability",)),
    (mig, ("mig",)),
    (
        lambda nvml, h: {"temperature_c": nvml.nvmlDeviceGetTemperature(h, TEMPERATURE_GPU)},
        ("temperature_c",),
    ),
    (lambda nvml, h: {"power_w": round(nvml.nvmlDeviceGetPowerUsage(h) / 1000, 1)}, ("power_w",)),
    (
        lambda nvml, h: {"utilization_pct": nvml.nvmlDeviceGetUtilizationRates(h).gpu},
        ("utilization_pct",),
    ),
)
