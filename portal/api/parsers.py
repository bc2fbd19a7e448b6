"""Reading a JSON body so that nothing in it can surprise the rooms below.

Refused with a sentence: other text than UTF-8, nesting that no order needs, a name that stands
twice in one object (whichever won would be wrong for somebody), NaN and Infinity, numbers of
more digits than any field has.
"""

import json
from typing import Any, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

MAX_DIGITS = 30


class StrictJSONParser(BaseParser):
    """``application/json`` to Python values. Raises ParseError with a sentence."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        # .body and not the stream: Django bounds its size, and the Idempotency-Key needs it again.
        body: bytes = parser_context["request"].body
        try:
            return json.loads(
                body.decode(),
                object_pairs_hook=_object,
                parse_constant=_no_constant,
                parse_int=_whole,
                parse_float=_fraction,
            )
        except UnicodeDecodeError as bad:
            raise ParseError(f"The body is not UTF-8: byte {bad.start} is wrong.") from None
        except json.JSONDecodeError as bad:
            where = f"line {bad.lineno}, column {bad.colno}"
            raise ParseError(f"The body is not JSON: {bad.msg} at {where}.") from None
        except RecursionError:
            raise ParseError("The body is nested too deeply.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ParseError(f"{twice[:80]!r} stands twice in one object.")
    return found


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ParseError(f"A number has {len(digits)} digits; {MAX_DIGITS} are allowed.")
    return int(digits)


def _fraction(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ParseError(f"The number {text[:40]} is too large.")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ParseError(f"{name} is not a number in JSON.")
