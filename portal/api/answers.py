"""Answers with an ETag: a reader who has the same already gets 304 and no body."""

import hashlib
import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from rest_framework.request import Request

JSON = "application/json"


def rendered(data: Any, *, status: int = 200) -> HttpResponse:
    """``data`` as JSON."""
    body = json.dumps(data, cls=DjangoJSONEncoder, ensure_ascii=False, separators=(",", ":"))
    return HttpResponse(body.encode("utf-8", "replace"), status=status, content_type=JSON)


def tagged(request: Request, data: Any) -> HttpResponseBase:
    """``data`` as JSON with its ETag, or 304 for whoever has it. Saves the wire, not the query."""
    response = rendered(data)
    tag = f'"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    response["Vary"] = "Authorization, Cookie"
    answer: HttpResponseBase | None = get_conditional_response(
        request._request, etag=tag, response=response
    )
    return answer or response
