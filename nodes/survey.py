"""What a machine must be like to become a node, and how it is said when it is not.

`look_around` asks before anything is written there; `judge` reads the first probe. A fault
refuses the machine, a remark is told and lets it in. A new check is a function here, a line in
docs/nodes.md and a story in tests/nodes/test_enroll.py.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import ship
from .errors import EnrolmentFailed
from .readings import Readings, read
from .wire import Wire

SHARED = (
    "nfs", "cifs", "smb", "fuse", "ceph", "lustre", "gpfs", "glusterfs", "9p", "afs", "beegfs",
    "virtiofs",
)  # fmt: skip
LEAST_DISK_GIB = 1
LITTLE_DISK_GIB = 20
CLOCK_TOLERANCE_S = 5.0
FIRST_PERSON_UID = 1000

LOOK_AROUND = """
import os, json, sys, time
root = os.path.abspath(os.path.expanduser(q["root"]))
def below(path):
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return os.path.realpath(path)
mounts = []
try:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            mounts.append([before.split()[4], after.split()[0]])
except OSError:
    pass
places = ["/var/lib/gangway", "/scratch", "/local", "/var/tmp"]
print(json.dumps({
    "python": sys.version_info[:3], "root": root, "below": below(root), "mounts": mounts[:4096],
    "writable": os.access(below(root), os.W_OK), "uid": os.getuid(), "time_s": time.time(),
    "places": [place for place in places if os.access(place, os.W_OK)],
}))
"""


@dataclass(frozen=True)
class Ground:
    """The place a node will have: its absolute root, who owns it, how the clock differs."""

    root: str
    uid: int
    clock_ahead_s: float


def look_around(wire: Wire, root: str) -> Ground:
    """Resolve ``root`` on the machine and check what lies under it; writes nothing there.

    Raises EnrolmentFailed for a missing or old python3, a shared file system, no right to write.
    """
    asked_s = time.time()
    seen = ship.ask_python(wire, LOOK_AROUND, root=root)
    answered_s = time.time()
    ship.check_python(seen, wire.where)
    where, kind = str(seen["root"]), filesystem(str(seen["below"]), seen["mounts"])
    if is_shared(kind):
        mounts = seen["mounts"]
        local = [spot for spot in seen["places"] if not is_shared(filesystem(spot, mounts))]
        offer = (local or ["/var/lib"])[0]
        raise EnrolmentFailed(
            f"The node's folder {where} lies on a shared file system ({kind}).",
            next_step=f"Give a local one with --root, such as {offer}/gangway.",
        )
    if not seen["writable"]:
        raise EnrolmentFailed(
            f"The account may not write {where} (its nearest folder is {seen['below']}).",
            next_step="Give a folder of the account's own with --root.",
        )
    ahead_s = float(seen["time_s"]) - (asked_s + answered_s) / 2
    return Ground(where, int(seen["uid"]), ahead_s)


def filesystem(path: str, mounts: list[list[str]]) -> str:
    """The type of the file system that holds ``path``: that of the deepest mount above it."""
    best, kind = "", "unknown"
    for point, its_kind in mounts:
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, its_kind
    return kind


def is_shared(kind: str) -> bool:
    return kind.startswith(SHARED)


def judge(
    probe: dict[str, Any], ground: Ground, where: str, *, pretended: bool = False
) -> list[str]:
    """The remarks on a machine that may be a node. Raises EnrolmentFailed with its first fault."""
    readings = read(probe)
    _refuse_without_cards(readings, where)
    free_gib = readings.facts.get("disk_free_gib")
    if isinstance(free_gib, int) and free_gib < LEAST_DISK_GIB:
        raise EnrolmentFailed(
            f"{where} has {free_gib} GiB free under {ground.root}; it needs {LEAST_DISK_GIB}.",
            next_step="Free some space, or give another folder with --root.",
        )
    if not pretended:  # jobs of a pretended node end with the login that runs it anyway
        _refuse_forgetful_logins(readings, ground, where)
    return list(_remarks(readings, ground))


def _refuse_without_cards(readings: Readings, where: str) -> None:
    error = readings.facts["nvml_error"]
    if error and not readings.cards:
        said = str(error.get("cause") or error.get("code")).rstrip(".")
        raise EnrolmentFailed(
            f"{where} does not answer for its GPUs: {said}.",
            next_step="Install the NVIDIA driver there; nvidia-smi must work for the account.",
        )
    if not readings.cards:
        raise EnrolmentFailed(
            f"{where} has no NVIDIA card that the driver shows.",
            next_step="See what nvidia-smi -L prints there; a node needs at least one card.",
        )


def _refuse_forgetful_logins(readings: Readings, ground: Ground, where: str) -> None:
    if ground.uid < FIRST_PERSON_UID:  # logind spares system accounts
        return
    if readings.facts["linger"] is False and readings.facts["remove_ipc"] is True:
        raise EnrolmentFailed(
            f"On {where} logind removes the account's shared memory when its last login ends,"
            " which breaks running jobs.",
            next_step="Run there as root: loginctl enable-linger ACCOUNT (or set RemoveIPC=no).",
        )


def _remarks(readings: Readings, ground: Ground) -> Iterator[str]:
    for card in readings.cards:
        if card.foreign_use:
            yield f"Card {card.index} is in use from outside and waits: {card.foreign_use}."
    yield from (words for words in readings.odd)
    if abs(ground.clock_ahead_s) > CLOCK_TOLERANCE_S:
        side = "ahead of" if ground.clock_ahead_s > 0 else "behind"
        yield f"Its clock is {abs(ground.clock_ahead_s):.0f} s {side} the portal's."
    free_gib = readings.facts.get("disk_free_gib")
    if isinstance(free_gib, int) and free_gib < LITTLE_DISK_GIB:
        yield f"Only {free_gib} GiB are free under {ground.root}."
    if readings.facts["linger"] is False and ground.uid >= FIRST_PERSON_UID:
        yield "Linger is off for the account; where logind kills user processes, jobs end with it."
