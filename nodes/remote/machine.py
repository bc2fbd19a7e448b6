"""Facts of the machine itself, read from /proc, /sys and /etc; null where it does not say.

Never asks NVML. A new fact: one function, one line in `facts`, one in docs/node-protocol.md.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

MIB, GIB = 1024 * 1024, 1024 * 1024 * 1024
LOGIND = Path("/run/systemd/system")  # there only where systemd started the machine
PRETENDED = ("hostname", "cpus", "memory_mib", "disk_free_gib", "disk_total_gib")


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def filesystem_of(path: Path, mountinfo: Optional[str] = None) -> str:
    """The type of the file system under the path (ext4, xfs, nfs4, fuse.sshfs, ...)."""
    if mountinfo is None:
        mountinfo = Path("/proc/self/mountinfo").read_text(errors="replace")
    mounts = dict(mount for mount in (mount_of(line) for line in mountinfo.splitlines()) if mount)
    absolute = Path(os.path.realpath(path))
    for folder in [absolute, *absolute.parents]:
        if str(folder) in mounts:
            return mounts[str(folder)]
    return "unknown"


def mount_of(line: str) -> Optional[Tuple[str, str]]:
    """(mount point, type) of one line of mountinfo; the last mount on a point counts."""
    before, dash, after = line.partition(" - ")
    fields = before.split()
    if not dash or len(fields) < 5:
        return None
    return fields[4].replace("\\040", " "), after.split()[0]


def loadavg() -> List[float]:
    return [round(load, 2) for load in os.getloadavg()]


def uptime_s() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def memory_mib() -> Optional[int]:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024
    return None


def disk_gib(path: Path) -> Tuple[int, int]:
    """(free for this account, total), in whole GiB."""
    disk = os.statvfs(str(path))
    return disk.f_bavail * disk.f_frsize // GIB, disk.f_blocks * disk.f_frsize // GIB


def linger(user: str) -> Optional[bool]:
    """May this user's processes stay after the last session? None where no logind runs."""
    if not LOGIND.exists():
        return None
    return Path("/var/lib/systemd/linger", user).exists()


def remove_ipc() -> Optional[bool]:
    """Does logind remove a user's shared memory after the last session? None without logind."""
    if not LOGIND.exists():
        return None
    files = [Path("/etc/systemd/logind.conf")]
    files += sorted(Path("/etc/systemd/logind.conf.d").glob("*.conf"))
    answer = True  # logind's own default
    for file in files:
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition("=")
            if name.strip() == "RemoveIPC":
                answer = value.strip().lower() in ("yes", "true", "1", "on")
    return answer


def pretended() -> Dict[str, Any]:
    """The size a demo node says it has, from GANGWAY_FAKE_NODE; several share one machine."""
    try:
        said = json.loads(os.environ.get("GANGWAY_FAKE_NODE", ""))
    except ValueError:
        return {}
    return {name: said[name] for name in PRETENDED if name in said}


def facts(root: Path, user: str, filesystem: str, boot: str) -> Dict[str, Any]:
    free_gib, total_gib = disk_gib(root)
    names = os.uname()
    return {
        "hostname": names.nodename,
        "boot_id": boot,
        "cpus": os.cpu_count(),
        "memory_mib": memory_mib(),
        "disk_free_gib": free_gib,
        "disk_total_gib": total_gib,
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "kernel": names.release,
        "uptime_s": uptime_s(),
        "loadavg": loadavg(),
        "linger": linger(user),
        "remove_ipc": remove_ipc(),
        "wall_time_s": time.time(),
        "filesystem": filesystem,
    }
