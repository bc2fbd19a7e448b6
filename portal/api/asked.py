"""Reading an address's parameters and small bodies: typed, bounded, and refused by name.

A misspelt parameter is refused and not ignored, since a filter that filters nothing misleads.
"""

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request

from scheduling.states import DONE, JobState

from .errors import InvalidRequest

BIGGEST = 2**63 - 1
REASON_MAX = 500
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def only(request: Request, *names: str) -> None:
    """Refuse parameters that this route does not know."""
    for name in request.query_params:
        if name not in names:
            valid = ", ".join(names) or "none"
            raise refused(name, f"{name[:80]!r} is not a parameter here. Valid: {valid}.")


def number(request: Request, name: str, default: int | None, *, least: int = 0) -> int | None:
    """A whole number from ``least`` to what the database can hold."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise refused(name, f"{name} is a whole number, not {text[:40]!r}.")
    if not least <= int(text) <= BIGGEST:
        raise refused(name, f"{name} is {text}; it must be from {least} to {BIGGEST}.")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """true or false; absent is false."""
    text = request.query_params.get(name, "false").lower()
    if text not in _FLAGS:
        raise refused(name, f"{name} is true or false, not {text[:40]!r}.")
    return _FLAGS[text]


def states(request: Request) -> list[str]:
    """Job states, repeated or with commas between; ``active`` stands for all but the ends."""
    found: list[str] = []
    for name in ",".join(request.query_params.getlist("state")).split(","):
        wanted = name.strip().upper()
        if wanted == "ACTIVE":
            found += [state for state in JobState if state not in DONE]
        elif wanted in list(JobState):
            found.append(wanted)
        elif wanted:
            valid = ", ".join(JobState)
            raise refused("state", f"{name[:40]!r} is not a state. Valid: active, {valid}.")
    return found


def text(value: Any, name: str, *, most: int, default: str | None = None) -> str:
    """A text of one to ``most`` characters without NUL; ``default`` when it is absent."""
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (not value and default is None):
        raise refused(name, f"{name} is missing or not a text.")
    if len(value) > most:
        raise refused(name, f"{name} has {len(value)} characters; {most} are allowed.")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise refused(name, f"{name} contains a NUL byte or half a character.")
    return value


def body(request: Request, *names: str) -> Mapping[str, Any]:
    """The JSON object that was sent; absent is empty. With ``names``, no other field may be in."""
    sent = request.data
    if not isinstance(sent, Mapping):
        raise InvalidRequest(
            f"The body is a JSON {_kind(sent)}, not an object.", next_step="Send {...}."
        )
    for name in sent if names else ():
        if name not in names:
            raise refused(name, f"{name[:80]!r} is not a field here. Valid: {', '.join(names)}.")
    return sent


def reason(request: Request) -> str:
    """The optional reason of an act."""
    return text(body(request, "reason").get("reason"), "reason", most=REASON_MAX, default="")


def refused(name: str, sentence: str) -> InvalidRequest:
    """A refusal that names one field."""
    return InvalidRequest(
        sentence, next_step="Correct it and send again.", fields={name[:80]: sentence}
    )


def _kind(value: Any) -> str:
    kinds = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")
