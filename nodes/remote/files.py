"""Facts on disk: written beside and renamed (or linked, where the first writer must win).

Owns how a file is written and read. Never knows what a file is called: that is paths.py.
A reader meets whole facts or none: what a power cut left half is read as absent.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, Dict, Optional

Fact = Dict[str, Any]
FORMAT = 1
MOST_BYTES = 8 * 1024 * 1024


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_spare(path: Path, data: bytes, mode: int) -> Path:
    """Write a file of this process's own beside `path`; it takes the name later."""
    spare = path.with_name(".{}.{}.part".format(path.name, os.getpid()))
    fd = os.open(str(spare), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(fd, mode)  # whatever the umask
        write_all(fd, data)
    finally:
        os.close(fd)
    return spare


def write_bytes(path: Path, data: bytes, mode: int = 0o600) -> None:
    write_spare(path, data, mode).replace(path)


def write_json(path: Path, fact: Fact, mode: int = 0o600) -> None:
    write_bytes(path, encode(fact), mode)


def link_json(path: Path, fact: Fact, mode: int = 0o600) -> bool:
    """Write the fact unless the name is taken: True for the one writer who won.

    link() is the kernel's own exclusive act; eight callers at once give one True.
    """
    spare = write_spare(path, encode(fact), mode)
    try:
        os.link(str(spare), str(path))
    except FileExistsError:
        return False
    finally:
        spare.unlink()
    return True


def encode(fact: Fact) -> bytes:
    return json.dumps(dict(fact, format=FORMAT)).encode("ascii")


def read_json(path: Path) -> Optional[Fact]:
    """The fact, or None where there is none (absent, unreadable, or half of one)."""
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8")
        fact = json.loads(text, parse_constant=no_number)
    except (OSError, ValueError, RecursionError):
        return None
    return fact if isinstance(fact, dict) else None


def no_number(word: str) -> None:
    raise ValueError("{} is no number".format(word))


def read_regular(path: Path, most: int) -> bytes:
    """At most `most` bytes of a regular file; OSError where something else has its name."""
    fd = open_regular(path)
    try:
        data = b""
        chunk = os.read(fd, most)
        while chunk:
            data += chunk
            chunk = os.read(fd, most - len(data))
        return data
    finally:
        os.close(fd)


def open_regular(path: Path) -> int:
    """Open for reading what a job may have exchanged: no link, no pipe, no device."""
    fd = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("{} is not a regular file".format(path))
    return fd


def sync(path: Path) -> None:
    """Bring a file and its name to the disk; costs a few milliseconds or more."""
    for name in (path, path.parent):
        fd = os.open(str(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def size_of(path: Path) -> Optional[int]:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
