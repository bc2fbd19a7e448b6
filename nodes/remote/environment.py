"""The variables a job sees: a clean base, the order's own, then Gangway's, which win.

Owns every name in docs/job-environment.md. Never starts a process.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any, Dict, List

from .paths import RunPaths

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def of_rank(order: Dict[str, Any], paths: RunPaths, bin_dir: Path, local: int) -> Dict[str, str]:
    """The whole environment of the process with this local rank."""
    environment = base(order, paths)
    environment.update(order["env"])
    # behind the order's own PATH, so that it hides nothing of the job's
    environment["PATH"] = "{}:{}".format(environment["PATH"], bin_dir)
    environment.update(gangway(order, paths))
    environment.update(cards(order))
    if order["launch"] == "per_gpu":
        environment.update(per_gpu(order, local))
    else:
        environment.update(per_node(order))
    return environment


def base(order: Dict[str, Any], paths: RunPaths) -> Dict[str, str]:
    account = person(order)
    return {
        "PATH": os.environ.get("PATH") or DEFAULT_PATH,
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "LANG": os.environ.get("LANG") or "C.UTF-8",
        "TMPDIR": str(paths.tmp),
    }


def person(order: Dict[str, Any]) -> pwd.struct_passwd:
    """The Unix user the order runs as."""
    if order.get("account"):
        return pwd.getpwnam(order["account"])
    try:
        return pwd.getpwuid(os.geteuid())
    except KeyError:  # a uid without an entry, as containers give them
        uid, home = os.geteuid(), os.environ.get("HOME", "/")
        fields = (str(uid), "x", uid, os.getegid(), "", home, "/bin/sh")
        return pwd.struct_passwd(fields)


def gangway(order: Dict[str, Any], paths: RunPaths) -> Dict[str, str]:
    found = {
        "GANGWAY_RUN_ID": paths.run,
        "GANGWAY_JOB_ID": str(order["job"]),
        "GANGWAY_ATTEMPT": str(order["attempt"]),
        "GANGWAY_RUN_DIR": str(paths.folder),
        "GANGWAY_NNODES": str(order["nnodes"]),
        "GANGWAY_NODE_RANK": str(order["node_rank"]),
        "GANGWAY_WORLD_SIZE": str(order["world_size"]),
        "GANGWAY_FIRST_RANK": str(order["first_rank"]),
        "GANGWAY_GPUS": ",".join(order["cards"]),
        "GANGWAY_GRACE_S": "{:g}".format(order["grace_s"]),
        "GANGWAY_STOP_FILE": str(paths.stopping),
        "GANGWAY_RESTART_COUNT": str(order["restarts"]),
    }
    if order["checkpoint"] is not None:
        found["GANGWAY_CHECKPOINT_PATH"] = order["checkpoint"]["path"]
        found["GANGWAY_CHECKPOINT_STEP"] = str(order["checkpoint"]["step"])
    return found


def cards(order: Dict[str, Any]) -> Dict[str, str]:
    visible: List[str] = order["cards"]
    if order["device_ids"] == "index":
        visible = [str(order["indexes"][uuid]) for uuid in order["cards"]]
    return {"CUDA_VISIBLE_DEVICES": ",".join(visible), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def per_node(order: Dict[str, Any]) -> Dict[str, str]:
    """torchrun's own defaults by environment."""
    return {
        "PET_NNODES": str(order["nnodes"]),
        "PET_NODE_RANK": str(order["node_rank"]),
        "PET_NPROC_PER_NODE": str(max(1, order["ranks"])),
        "PET_MASTER_ADDR": order["master_addr"],
        "PET_MASTER_PORT": str(order["master_port"]),
    }


def per_gpu(order: Dict[str, Any], local: int) -> Dict[str, str]:
    """What torch.distributed's env:// reads."""
    return {
        "RANK": str(order["first_rank"] + local),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(order["world_size"]),
        "LOCAL_WORLD_SIZE": str(order["ranks"]),
        "MASTER_ADDR": order["master_addr"],
        "MASTER_PORT": str(order["master_port"]),
    }
