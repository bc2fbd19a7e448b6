"""Every refusal of the API as a problem document: one shape, stable codes, a next step.

``problem`` is REST framework's exception handler. A new family of errors is a row in ``_FAMILIES``;
what is in none is logged with a number, and the document shows the number alone.
"""

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import RawPostDataException, UnreadablePostError
from rest_framework import exceptions

from nodes.errors import NodeError, NodeRefused
from scheduling.errors import SchedulingError

log = logging.getLogger(__name__)

SCHEMA_HINT = "The routes are listed at /api/v1/schema."


class InvalidRequest(SchedulingError):
    """The address or the body is not what this route takes."""

    code = "invalid_request"
    status = 400


@dataclass(frozen=True, slots=True)
class Told:
    """What the document says. ``fields`` has a sentence for each field that is meant."""

    status: int
    code: str
    detail: str
    next_step: str
    fields: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def problem(exc: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """Answer ``exc`` as ``application/problem+json``; never raises, never shows a traceback."""
    for family, tell in _FAMILIES:
        if isinstance(exc, family):
            return document(tell(exc))
    number = uuid.uuid4().hex[:12]
    request = context.get("request")
    where = f"{request.method} {request.path}" if request is not None else "outside a request"
    log.error("error %s in %s", number, where, exc_info=exc)
    return document(
        Told(
            500,
            "internal_error",
            f"The portal failed while answering; it is logged as error {number}.",
            "Try again. If it stays so, give this number to an operator.",
        )
    )


def document(told: Told) -> HttpResponse:
    """The problem document itself."""
    body = {
        "type": f"urn:gangway:problem:{told.code}",
        "title": HTTPStatus(told.status).phrase,
        "status": told.status,
        "code": told.code,
        "detail": told.detail,
        "next_step": told.next_step,
        "fields": dict(told.fields),
    }
    # What was sent is quoted here, and it may hold half a surrogate pair, which has no UTF-8.
    text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    response = HttpResponse(text, status=told.status, content_type="application/problem+json")
    for name, value in {**told.headers, "Cache-Control": "no-store"}.items():
        response[name] = value
    return response


def _refused(exc: SchedulingError) -> Told:
    return Told(exc.status, exc.code, exc.cause, exc.next_step, exc.fields)


def _by_node(exc: NodeError) -> Told:
    if isinstance(exc, NodeRefused):
        return Told(502, exc.code, exc.cause, exc.next_step)
    wait_s = "1" if exc.code == "too_many_readers" else "2"
    return Told(503, exc.code, exc.cause, exc.next_step, headers={"Retry-After": wait_s})


def _by_framework(exc: exceptions.APIException) -> Told:
    code, step = _FRAMEWORK.get(type(exc), ("refused", SCHEMA_HINT))
    names = (("auth_header", "WWW-Authenticate"), ("wait", "Retry-After"))
    headers = {header: str(getattr(exc, name)) for name, header in names if hasattr(exc, name)}
    return Told(exc.status_code, code, str(exc.detail), step, headers=headers)


def _not_found(exc: Exception) -> Told:
    return Told(404, "not_found", "There is nothing at this address.", SCHEMA_HINT)


def _too_big(exc: Exception) -> Told:
    return Told(413, "too_large", "The body is over 4 MiB.", "Send less; put data on the node.")


def _bad(exc: Exception) -> Told:
    return Told(400, "bad_request", "The request could not be read.", "Send JSON in UTF-8.")


def _forbidden(exc: Exception) -> Told:
    return Told(403, "not_allowed", "This is not allowed.", "Ask an operator.")


def _no_database(exc: Exception) -> Told:
    log.warning("no answer from the database: %s", exc)
    detail = "The portal's database did not answer."
    return Told(503, "unavailable", detail, "Try again in 2 s.", headers={"Retry-After": "2"})


_FRAMEWORK: dict[type[exceptions.APIException], tuple[str, str]] = {
    exceptions.ParseError: ("invalid_json", "Send one JSON object in UTF-8."),
    exceptions.NotAuthenticated: (
        "not_signed_in",
        "Send Authorization: Bearer with a token of POST /api/v1/tokens.",
    ),
    exceptions.AuthenticationFailed: (
        "wrong_credentials",
        "Check the name and password, or make a new token.",
    ),
    exceptions.PermissionDenied: (
        "not_allowed",
        "With a session send X-CSRFToken; without one use a token.",
    ),
    exceptions.MethodNotAllowed: ("method_not_allowed", SCHEMA_HINT),
    exceptions.UnsupportedMediaType: (
        "unsupported_media_type",
        "Send Content-Type: application/json.",
    ),
    exceptions.Throttled: ("too_many_tries", "Wait that long and try again."),
}
_UNREADABLE: tuple[type[Exception], ...] = (
    BadRequest,
    SuspiciousOperation,
    MultiPartParserError,
    RawPostDataException,
    UnreadablePostError,
)
_FAMILIES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Callable[[Any], Told]], ...]
_FAMILIES = (
    (SchedulingError, _refused),
    (NodeError, _by_node),
    (exceptions.APIException, _by_framework),
    (Http404, _not_found),
    (PermissionDenied, _forbidden),
    (RequestDataTooBig, _too_big),
    (_UNREADABLE, _bad),
    ((OperationalError, InterfaceError), _no_database),
)
