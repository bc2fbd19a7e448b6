"""Lines in, lines out: the shape of requests, answers, events and refusals.

Owns the protocol number, the greatest line and the checks of arguments. Never reads a file.
A new kind of argument: add a function beside `integer`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, Optional

VERSION = 1
MAX_LINE_BYTES = 2 * 1024 * 1024
MAX_COMMAND_BYTES = 256 * 1024
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
SIGNALS = ("TERM", "INT", "HUP", "USR1", "USR2", "QUIT")
RECEIVERS = ("group", "rank0")

Args = Dict[str, Any]
Answer = Dict[str, Any]


class Refusal(Exception):
    """A "no" with its reason: `kind` says whose it is (node, job, request, foreign)."""

    def __init__(self, code: str, kind: str, cause: str, next_step: str) -> None:
        super().__init__(cause)
        self.code, self.kind, self.cause, self.next_step = code, kind, cause, next_step

    def as_json(self) -> Answer:
        return {
            "code": self.code,
            "class": self.kind,
            "cause": self.cause,
            "next_step": self.next_step,
        }


def bad_argument(name: str, why: str) -> Refusal:
    return Refusal(
        "bad_argument",
        "request",
        "Argument {!r} {}.".format(name, why),
        "Send the request again with {!r} as docs/node-protocol.md describes it.".format(name),
    )


def parse(line: bytes) -> Args:
    """One request from one line; Refusal (class request) where it is not one."""
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as broken:
        raise Refusal(
            "bad_line",
            "request",
            "The line of {} bytes is not JSON in UTF-8: {}.".format(len(line), broken),
            "Send one JSON object on one line.",
        ) from broken
    if not isinstance(request, dict):
        raise Refusal(
            "bad_line",
            "request",
            "The line holds a JSON {}.".format(type(request).__name__),
            "Send one JSON object on one line.",
        )
    return request


def check_version(request: Args) -> None:
    if request.get("v") != VERSION or isinstance(request.get("v"), bool):
        raise Refusal(
            "bad_version",
            "request",
            "Protocol {!r} was asked and {} is spoken here.".format(request.get("v"), VERSION),
            'Send "v": {}, or ship the cargo that speaks the other one.'.format(VERSION),
        )


def line_of(message: Answer) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def text(args: Args, name: str, default: Optional[str] = None) -> str:
    """A string without NUL that can be written as UTF-8."""
    value = args.get(name, default)
    if not isinstance(value, str):
        raise bad_argument(name, "must be a string, not {}".format(shown(value)))
    check_text(name, value)
    return value


def check_text(name: str, value: str) -> None:
    if "\0" in value:
        raise bad_argument(name, "holds a NUL byte")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as broken:
        raise bad_argument(name, "cannot be written as UTF-8 ({})".format(broken)) from broken


def integer(args: Args, name: str, least: int, default: Optional[int] = None) -> int:
    value = args.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise bad_argument(name, "must be an integer from {}, not {}".format(least, shown(value)))
    return value


def seconds(args: Args, name: str, default: Optional[float] = None) -> float:
    """A number of seconds, finite and not negative."""
    value = args.get(name, default)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is None or not number or not math.isfinite(value) or value < 0:
        raise bad_argument(name, "must be seconds from 0, not {}".format(shown(value)))
    return float(value)


def boolean(args: Args, name: str, default: bool) -> bool:
    value = args.get(name, default)
    if not isinstance(value, bool):
        raise bad_argument(name, "must be true or false, not {}".format(shown(value)))
    return value


def run_id(args: Args, name: str = "run") -> str:
    value = text(args, name)
    if not RUN_ID.match(value):
        raise bad_argument(name, "is no run id: {}".format(shown(value)))
    return value


def signal_name(args: Args, name: str = "signal") -> str:
    value = text(args, name, "TERM")
    if value not in SIGNALS:
        raise bad_argument(
            name, "must be one of {}, not {}".format(", ".join(SIGNALS), shown(value))
        )
    return value


def receiver(args: Args, name: str) -> str:
    """Who gets the signal of a stop: every process group of the run, or rank 0 alone."""
    value = text(args, name, "group")
    if value not in RECEIVERS:
        raise bad_argument(name, "must be group or rank0, not {}".format(shown(value)))
    return value


def shown(value: Any) -> str:
    """The value as it may stand in a sentence: never longer than 60 characters."""
    if value is None:
        return "missing"
    words = json.dumps(value)
    return words if len(words) <= 60 else words[:57] + "..."
