"""What every verb is given: the root, whose it is, this boot, and the way to the cards.

Owns the check that the folder is this portal's and lies on a disk of this machine.
Never looks at a run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Optional

from . import machine
from .files import link_json, read_json, write_json
from .nvmlchild import Nvml
from .paths import Root
from .protocol import Refusal

SHARED = ("nfs", "cifs", "smb", "fuse", "9p", "lustre", "beegfs", "gpfs", "ceph", "afs", "virtiofs")


class Node:
    """One node root as one runner sees it."""

    def __init__(self, root: Path, instance: str, cargo: str, bin_dir: Path, nvml: Nvml) -> None:
        self.root, self.instance = Root(root), instance
        self.cargo, self.bin_dir = cargo, bin_dir
        self.nvml = nvml
        self.boot = machine.boot_id()
        self.python = "{}.{}.{}".format(*sys.version_info[:3])
        self.filesystem = machine.filesystem_of(root)
        self.seen_owner: Optional[object] = None

    def check(self) -> None:
        """Refusal unless this root may be used by this portal; costs one stat once it was fine."""
        if self.is_shared():
            raise Refusal(
                "shared_filesystem",
                "request",
                "{} lies on {}, which other machines share.".format(
                    self.root.path, self.filesystem
                ),
                "Give this node a root on a disk of its own, such as /var/tmp/gangway-node.",
            )
        try:
            found = self.root.owner.stat()
        except (FileNotFoundError, NotADirectoryError):
            self.settle_in()
            return
        stamp = (found.st_ino, found.st_mtime_ns)
        if stamp != self.seen_owner:
            self.settle_in()
            self.seen_owner = stamp

    def is_shared(self) -> bool:
        return self.filesystem.startswith(SHARED)

    def settle_in(self) -> None:
        self.make_folders()
        link_json(self.root.owner, {"instance": self.instance})
        owner = (read_json(self.root.owner) or {}).get("instance")
        if owner != self.instance:
            raise Refusal(
                "owned_by_other",
                "foreign",
                "{} belongs to the portal instance {}; this one is {}.".format(
                    self.root.path, owner, self.instance
                ),
                "Use another root, or enrol the node with --take-over if that portal is gone.",
            )

    def make_folders(self) -> None:
        try:
            self.root.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # entered by any user, listed by none: a job may run as another one
            for folder in (self.root.path, self.root.runs):
                folder.mkdir(mode=0o711, exist_ok=True)
            self.root.live.mkdir(mode=0o700, exist_ok=True)
        except OSError as broken:
            raise Refusal(
                "no_root",
                "node",
                "{} cannot be made: {}.".format(self.root.path, broken.strerror),
                "Give the account the right to write there, or choose another root.",
            ) from broken

    def take_over(self) -> None:
        self.make_folders()
        write_json(self.root.owner, {"instance": self.instance})


def bin_folder() -> Path:
    """The folder of the zipapp: gangway-job and pynvml.py lie beside it."""
    return Path(os.path.abspath(sys.argv[0])).parent  # noqa: PTH100 - links must stay as they are
