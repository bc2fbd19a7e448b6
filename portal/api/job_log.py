"""A job's log as bytes, unchanged, with the place to read on from in headers."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from scheduling import logs

from . import asked
from .endpoint import Endpoint, problems
from .jobs import found

BYTES = "application/octet-stream"
HEADERS = {
    "X-Attempt": "Number of the attempt that was read; empty while there is none.",
    "X-Log-Offset": "Where the bytes begin; later than asked where the middle was not kept.",
    "X-Next-Offset": "Where to read on.",
    "X-Log-Size": "Bytes written so far.",
    "X-Log-Ended": "true: nothing will follow in this attempt.",
}


def _header(name: str) -> OpenApiParameter:
    return OpenApiParameter(
        name, str, OpenApiParameter.HEADER, description=HEADERS[name], response=[200]
    )


class JobLog(Endpoint):
    """One rank's output."""

    @extend_schema(
        operation_id="read_log",
        parameters=[
            OpenApiParameter("attempt", int, description="The last one by default."),
            OpenApiParameter("rank", int),
            OpenApiParameter("offset", int, description="In bytes; negative: from the end."),
            OpenApiParameter("limit", int, description=f"At most {logs.READ_MAX_BYTES} bytes."),
            *(_header(name) for name in HEADERS),
        ],
        responses={
            (200, BYTES): OpenApiResponse(OpenApiTypes.BINARY),
            **problems(400, 404, 502),
        },
    )
    def get(self, request: Request, job_id: int) -> HttpResponse:
        asked.only(request, "attempt", "rank", "offset", "limit")
        limit = asked.number(request, "limit", logs.READ_MAX_BYTES, least=1)
        piece = logs.read(
            found(request, job_id),
            attempt=asked.number(request, "attempt", None, least=1),
            rank=asked.number(request, "rank", 0) or 0,
            offset=asked.number(request, "offset", 0, least=-asked.BIGGEST) or 0,
            limit=min(limit or 1, logs.READ_MAX_BYTES),
        )
        return _answer(piece)


def _answer(piece: logs.LogSlice) -> HttpResponse:
    values: dict[str, Any] = {
        "X-Attempt": "" if piece.attempt is None else piece.attempt,
        "X-Log-Offset": piece.offset,
        "X-Next-Offset": piece.next_offset,
        "X-Log-Size": piece.size,
        "X-Log-Ended": "true" if piece.ended else "false",
        "Cache-Control": "no-store",
        # A log is whatever a job wrote: no browser is to take it for a page of this site.
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return HttpResponse(piece.data, content_type=BYTES, headers=values)
