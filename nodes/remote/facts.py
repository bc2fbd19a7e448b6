"""What a fact in a run's folder must hold to count as one.

Owns the shapes. A job may write into its own run folder, so a file there is read as absent unless
it has the shape: one spoilt run must not silence the node. A new file: name it in paths.py, its
shape here, and read it by `read`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Optional

from .files import Fact, read_json
from .protocol import SIGNALS

Check = Callable[[Any], bool]
GREATEST = 1 << 53
LONGEST = 4096


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < GREATEST


def whole(value: Any) -> bool:
    return number(value) and isinstance(value, int)


def words(value: Any) -> bool:
    """Text that anybody can store: not too long, no NUL, no half of a character."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return False
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value)


def file_name(value: Any) -> bool:
    return words(value) and "/" not in value


def numeral(value: Any) -> bool:
    return words(value) and value.isascii() and value.isdecimal() and len(value) < 12


def truth(value: Any) -> bool:
    return isinstance(value, bool)


def signal_word(value: Any) -> bool:
    return value in SIGNALS


def or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def each(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(one) for one in value)


def mapping(of: Check, key: Check = words) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(key(name) and of(value[name]) for name in value)
    )


def fields(**checks: Check) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and all(name in value and check(value[name]) for name, check in checks.items())
    )


def claim(value: Any) -> bool:
    if value.get("claim") == "refused":
        return fields(boot_id=words, reason=words)(value)
    start = fields(boot_id=words, pid=whole, start=whole)
    return value.get("claim") == "start" and start(value)


PROCESS = fields(rank=whole, pid=whole, start=whole, log=file_name)
EXIT = fields(rank=whole, exit=or_null(whole), signal=or_null(whole))
CHECKPOINT = fields(
    step=whole, path=words, bytes=whole, begun_s=or_null(number), done_s=number, rank=whole
)
PROGRESS = fields(
    n=whole,
    checkpoints=each(CHECKPOINT),
    open=each(fields(step=whole, begun_s=number)),
    step=or_null(whole),
    ranks=mapping(fields(step=whole, seconds=number, comm_s=or_null(number), at_s=number)),
)
PIDS = each(fields(pid=whole))
CARD = fields(clean=truth, used_mib=or_null(number), baseline_mib=number, pids=PIDS, foreign=PIDS)

STUCK = fields(pid=whole, state=words, name=words, wchan=words)
SHARED = fields(files=mapping(whole, file_name), segments=mapping(whole, numeral))

SHAPES: Dict[str, Check] = {
    "order.json": fields(
        boot_id=words,
        launch=words,
        ranks=whole,
        first_rank=whole,
        cards=each(words),
        baseline_mib=mapping(number),
    ),
    "claim.json": claim,
    "started.json": fields(boot_id=words, started_at_s=number, ranks=each(PROCESS)),
    "stop.json": fields(grace_s=number, reason=words, signal=signal_word, asked_at_s=number),
    "limit.json": fields(limit_s=or_null(number)),
    "stopping.json": lambda value: (
        fields(kill_at_s=number)(value) and each(STUCK)(value.get("stuck", []))
    ),
    "saved.json": PROGRESS,
    "seen.json": lambda value: (
        fields(processes=mapping(whole, numeral))(value) and or_null(SHARED)(value.get("shared"))
    ),
    "gap.json": fields(gaps=mapping(each(whole))),
    "gate.json": fields(cards=mapping(CARD)),
    "ended.json": fields(
        boot_id=words,
        started_at_s=or_null(number),
        ended_at_s=number,
        ran_s=or_null(number),
        ranks=each(PROCESS),
        exits=each(EXIT),
        exit=or_null(whole),
        signal=or_null(whole),
        failed_rank=or_null(whole),
        end=words,
        stop_reason=or_null(words),
        exit_before_term=truth,
        oom=truth,
    ),
}


def read(path: Path) -> Optional[Fact]:
    """The fact of this file, or None where there is none, or none of its shape."""
    fact = read_json(path)
    return fact if fact is not None and SHAPES[path.name](fact) else None
