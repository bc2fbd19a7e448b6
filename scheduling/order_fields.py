"""What each field of a job may be: one reader a field, each with a sentence for its refusal.

Pure. A reader takes the field's name and what was sent and returns the order's values; it
raises ValueError with a sentence. To add a field: a row in FIELDS, an attribute on JobOrder.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

COMMAND_MAX_BYTES = 256 * 1024
ENV_MAX_BYTES = 120 * 1024
ENV_TOTAL_MAX_BYTES = 1024 * 1024
AFTER_MOST = 100
SIGNALS = ("TERM", "INT", "HUP", "USR1", "USR2", "QUIT")
RECEIVERS = ("group", "rank0")
LEVELS = ("island", "node", "rack", "block")
AXES = ("tp", "pp", "dp")
_CAPABILITY = re.compile(r"[1-9]\d?(\.\d)?\Z", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?\Z")


def duration_s(value: Any) -> int:
    """Seconds of ``90``, ``"90"``, ``"90s"``, ``"2d12h"``. Raises ValueError with a sentence."""
    if isinstance(value, int) and not isinstance(value, bool):
        seconds = value
    else:
        text = str(value).strip().lower()
        match = _DURATION.match(text)
        if text.isascii() and text.isdigit():
            seconds = _whole(text)
        elif text and match and len(text) < 32:
            days, hours, minutes, rest = (int(part or 0) for part in match.groups())
            seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
        else:
            raise ValueError("A duration is seconds or such as 90s, 45m, 48h, 2d12h.")
    if not 1 <= seconds <= 366 * 24 * 3600:
        raise ValueError(f"A duration of {seconds} s is outside 1 s to 366 days.")
    return seconds


def _whole(digits: str) -> int:
    """ASCII digits as a number; one beyond any limit here when there are very many."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= 18 else 10**18


_Reader = Callable[[str, Any], dict[str, Any]]


def _text(most: int, *, newlines: bool = False) -> _Reader:
    def read(target: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, str):
            raise ValueError(f"{target} is a text, not {type(value).__name__}.")
        _check_text(target, value)
        if len(value) > most:
            raise ValueError(f"{target} has {len(value)} characters; {most} are allowed.")
        if not newlines and ("\n" in value or "\r" in value):
            raise ValueError(f"{target} may not contain a line break.")
        return {target: value}

    return read


def _folder(target: str, value: Any) -> dict[str, Any]:
    read = _text(4096, newlines=True)(target, value)
    if value and not value.startswith("/"):
        raise ValueError(f"{value[:80]!r} is not a full path on the node. Begin it with a slash.")
    return read


def _check_text(what: str, value: str) -> None:
    if "\0" in value:
        raise ValueError(f"{what} contains a NUL byte; remove it.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} contains a lone surrogate, which is not text.") from None


def _command(target: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("The command is empty. Say what is to run.")
    _check_text("The command", value)
    size = len(value.encode())
    if size > COMMAND_MAX_BYTES:
        raise ValueError(
            f"The command has {size} bytes; {COMMAND_MAX_BYTES} are allowed. "
            "Put the script on the node and call it."
        )
    return {target: value}


def _count(least: int, most: int, scale: int = 1) -> _Reader:
    def read(target: str, value: Any) -> dict[str, Any]:
        if isinstance(value, str) and value.isascii() and value.strip().isdigit():
            value = _whole(value.strip())
        if isinstance(value, int) and abs(value) > 10**18:
            raise ValueError(f"A number from {least} to {most} is needed.")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"A whole number from {least} to {most} is needed.")
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"A number from {least} to {most} is needed.")
        if scale == 1 and value != int(value):
            raise ValueError(f"{value:g} is not a whole number.")
        if not least <= value <= most:
            raise ValueError(f"{value:g} is outside {least} to {most}.")
        return {target: int(value * scale)}

    return read


def _choice(*allowed: str) -> _Reader:
    def read(target: str, value: Any) -> dict[str, Any]:
        if value not in allowed:
            raise ValueError(f"{str(value)[:40]!r} is not one of {', '.join(allowed)}.")
        return {target: value}

    return read


def _flag(target: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise ValueError("true or false is needed.")
    return {target: value}


def _duration(target: str, value: Any) -> dict[str, Any]:
    return {target: duration_s(value)}


def _env(target: str, value: Any) -> dict[str, Any]:
    pairs = _pairs(value, "An environment variable")
    for name, text in pairs.items():
        if not _NAME.match(name):
            raise ValueError(
                f"{name[:80]!r} is not a name of an environment variable "
                "(letters, digits, underscores, no digit first)."
            )
        _check_text(f"The value of {name}", text)
        if len(text.encode()) > ENV_MAX_BYTES:
            raise ValueError(f"The value of {name} is over {ENV_MAX_BYTES // 1024} KiB.")
    if sum(len(n) + len(t.encode()) for n, t in pairs.items()) > ENV_TOTAL_MAX_BYTES:
        raise ValueError("The environment is over 1 MiB in all.")
    return {target: pairs}


def _labels(target: str, value: Any) -> dict[str, Any]:
    return {target: _pairs(value, "A label")}


def _pairs(value: Any, what: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("An object of names and texts is needed.")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ValueError(f"{what} is a text; {str(name)[:80]!r} is not.")
        _check_text(what, name)
        _check_text(what, text)
    return dict(value)


def _capability(target: str, value: Any) -> dict[str, Any]:
    text = f"{value:.1f}" if isinstance(value, float) and 0 < value < 100 else str(value)
    if isinstance(value, bool) or not _CAPABILITY.match(text):
        raise ValueError(f"{text[:40]!r} is not a compute capability such as 8.0 or 9.0.")
    major, _, minor = text.partition(".")
    return {target: int(major) * 10 + int(minor or 0)}


def _parallelism(target: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError('parallelism is an object such as {"tp": 8, "pp": 1, "dp": 2}.')
    read: dict[str, int] = {}
    for name, given in value.items():
        if name not in AXES:
            raise ValueError(f"parallelism has {', '.join(AXES)}, not {str(name)[:40]!r}.")
        if given is not None:
            read |= _count(1, 100_000)(name, given)
    return {target: read}


def _topology(target: str, value: Any) -> dict[str, Any]:
    if value in ("unconstrained", {}):
        return {"topology_level": "", "topology_required": False}
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError(
            'topology is "unconstrained" or one of {"required": LEVEL} and {"preferred": LEVEL}.'
        )
    ((how, level),) = value.items()
    if how not in ("required", "preferred"):
        raise ValueError(f"topology has required or preferred, not {str(how)[:40]!r}.")
    if level not in LEVELS:
        raise ValueError(f"{str(level)[:40]!r} is not a level. Valid: {', '.join(LEVELS)}.")
    return {"topology_level": level, "topology_required": how == "required"}


def _interval(value: Any) -> dict[str, Any]:
    return {"checkpoint_interval_s": duration_s(value)}


def _checkpoint(target: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError('checkpoint is an object such as {"signal": "TERM", "grace_s": 120}.')
    read: dict[str, Any] = {}
    for name, given in value.items():
        if name == "signal":
            read |= _choice(*SIGNALS)("stop_signal", given)
        elif name == "grace_s":
            read |= _count(1, 24 * 3600)("grace_s", given)
        elif name == "interval_s":
            read |= {} if given is None else _interval(given)
        elif name == "to":
            read |= _choice(*RECEIVERS)("signal_to", given)
        else:
            raise ValueError(
                f"checkpoint has signal, to, grace_s and interval_s, not {str(name)[:40]!r}."
            )
    return read


def _moment(target: str, value: Any) -> dict[str, Any]:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(f"{target} is a time with its zone, such as 2026-12-24T18:00:00+01:00.")
    if not 2000 <= at.year < 9000:
        raise ValueError(f"{target} is in the year {at.year}; no job waits for that.")
    return {target: at.astimezone(UTC)}


def _after(target: str, value: Any) -> dict[str, Any]:
    """``[12, 13]``: they have to end well; ``{"jobs": [12], "end": "any"}``: however they end."""
    asked, end = value, "ok"
    if isinstance(value, Mapping):
        if set(value) - {"jobs", "end"} or value.get("end", "ok") not in ("ok", "any"):
            raise ValueError('after is [12, 13] or {"jobs": [12, 13], "end": "ok" or "any"}.')
        asked, end = value.get("jobs"), value.get("end", "ok")
    whole = isinstance(asked, list) and all(isinstance(id, int) and id is not True for id in asked)
    if not whole or not all(0 < id < 2**63 for id in asked):
        raise ValueError("after names jobs by their numbers, such as [12, 13].")
    if len(asked) > AFTER_MOST:
        raise ValueError(f"after names {len(asked)} jobs; {AFTER_MOST} are allowed.")
    return {target: tuple(sorted(set(asked))), "after_any": end == "any"}


FIELDS: dict[str, tuple[str, _Reader]] = {
    "team": ("team", _text(63)),
    "pool": ("pool", _text(63)),
    "name": ("name", _text(200)),
    "command": ("command", _command),
    "workdir": ("workdir", _folder),
    "env": ("env", _env),
    "gpus": ("gpus", _count(1, 100_000)),
    "nodes": ("nodes", _count(1, 10_000)),
    "gpu_model": ("gpu_model", _text(96)),
    "gpu_memory_gib": ("gpu_memory_mib", _count(0, 10_000, 1024)),
    "gpu_memory_limit_gib": ("gpu_memory_limit_mib", _count(0, 10_000, 1024)),
    "gpu_capability": ("gpu_capability", _capability),
    "cpus": ("cpus", _count(1, 1_000_000)),
    "memory_gib": ("memory_mib", _count(0, 1_000_000, 1024)),
    "disk_gib": ("disk_gib", _count(0, 1_000_000)),
    "labels": ("labels", _labels),
    "launch": ("launch", _choice("per_node", "per_gpu")),
    "device_ids": ("device_ids", _choice("uuid", "index")),
    "time_limit": ("time_limit_s", _duration),
    "priority": ("priority", _text(63)),
    "requeue": ("requeue", _flag),
    "begin_at": ("begin_at", _moment),
    "after": ("after", _after),
    "reservation": ("reservation", _count(1, 2**63 - 1)),
    "checkpoint": ("checkpoint", _checkpoint),
    "parallelism": ("parallelism", _parallelism),
    "topology": ("topology", _topology),
}
