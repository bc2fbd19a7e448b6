"""What is shipped to a node: the zipapp, pynvml beside it, and the jobs' helper command.

Owns packing nodes/remote into bytes that depend on its text alone. Never imports it and never
sends it: ship.py does. A new file on the nodes: add it in `build`.
"""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

REMOTE = Path(__file__).parent / "remote"
PACKAGE = "gangway_node"
ZIPAPP = "gangway-node.pyz"
HASH_DIGITS = 16
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip file can hold

MAIN = f"import sys\n\nfrom {PACKAGE}.__main__ import main\n\nsys.exit(main())\n"
JOB = f"""\
#!/bin/sh
# found on a job's PATH; its words are those of docs/job-contract.md
# what the whole job is told must not take away this word of it: ignored signals stay so in Python
trap '' TERM INT HUP USR1 USR2 QUIT
# the few modules it needs, and no others: a job may call it after every step
exec python3 -IS -c 'import sys
sys.path.insert(0, sys.argv[1])
from {PACKAGE}.job import main
sys.exit(main(sys.argv[2:]))' "${{0%/*}}/{ZIPAPP}" "$@"
"""


@dataclass(frozen=True)
class CargoFile:
    """One file as it lies in the node's bin folder."""

    name: str
    data: bytes
    mode: int


@dataclass(frozen=True)
class Cargo:
    """All files of one version; `hash` names their folder on the node."""

    hash: str
    files: tuple[CargoFile, ...]


@cache
def build() -> Cargo:
    """The cargo of this version: the same bytes from the same text, about 30 ms the first time."""
    files = (
        CargoFile(ZIPAPP, zipapp(), 0o644),
        CargoFile("pynvml.py", pynvml(), 0o644),
        CargoFile("gangway-job", JOB.encode(), 0o755),
    )
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.mode:o}\0{len(file.data)}\0".encode())
        digest.update(file.data)
    return Cargo(digest.hexdigest()[:HASH_DIGITS], files)


def zipapp() -> bytes:
    sources = {f"{PACKAGE}/{path.name}": path.read_text() for path in REMOTE.glob("*.py")}
    sources["__main__.py"] = MAIN
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(sources):
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, sources[name])
    return packed.getvalue()


def pynvml() -> bytes:
    """nvidia-ml-py's module as it is installed here; its licence stands in its first lines."""
    return Path(str(distribution("nvidia-ml-py").locate_file("pynvml.py"))).read_bytes()
