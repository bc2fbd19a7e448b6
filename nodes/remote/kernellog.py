"""What the kernel's log says of the cards since a line that was read before.

Owns reading /dev/kmsg: never waits, never more than a bound, and where it may not be read says so.
A line is named by its sequence number of this boot.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List

KMSG = "/dev/kmsg"
MOST_RECORDS = 20000
MOST_LINES = 64
MOST_TEXT = 300
WORDS = ("NVRM: Xid", "SXid", "fallen off the bus")

Fact = Dict[str, Any]


def since(cursor: int, path: str = KMSG) -> Fact:
    """{"cursor", "lines", "error"}: the lines about cards after `cursor`, the newest 64."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as refused:
        return {"cursor": cursor, "lines": [], "error": refused.strerror}
    try:
        return read(fd, cursor)
    finally:
        os.close(fd)


def read(fd: int, cursor: int) -> Fact:
    last, lines = cursor, []  # type: ignore[var-annotated]
    for _ in range(MOST_RECORDS):
        try:
            record = os.read(fd, 8192)
        except BlockingIOError:
            break
        except BrokenPipeError:  # overwritten while we read: the next read goes on after the gap
            continue
        except OSError as broken:
            return {"cursor": last, "lines": lines[-MOST_LINES:], "error": broken.strerror}
        if not record:
            break
        number, text = parsed(record)
        if number > last:
            last = number
            if any(word in text for word in WORDS):
                lines.append(text[:MOST_TEXT])
    return {"cursor": last, "lines": lines[-MOST_LINES:], "error": None}


def parsed(record: bytes) -> "tuple[int, str]":
    """`6,1234,98765,-;text` and lines that continue it: the number and the first line."""
    head, _, text = record.decode("utf-8", "replace").partition(";")
    parts: List[str] = head.split(",")
    number = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else -1
    return number, text.partition("\n")[0]
