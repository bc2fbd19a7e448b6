"""What all views of the API share: who may come in, what is read, what is answered."""

from typing import Any

from rest_framework.authentication import SessionAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from .auth import BearerAuthentication
from .parsers import StrictJSONParser
from .shapes_site import ProblemSerializer

_PROBLEM = "application/problem+json"


class _OurOwn(BaseContentNegotiation):
    """Each route has one representation, whatever Accept asks: a log is bytes, the rest JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        sent = request.content_type.split(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == sent), None)

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class Endpoint(APIView):
    """A route for signed-in people and their programs."""

    authentication_classes = [BearerAuthentication, SessionAuthentication]
    permission_classes = [IsAuthenticated]
    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer]
    throttle_classes = []
    content_negotiation_class = _OurOwn
    http_method_names = ["get", "head", "post", "delete"]


class OpenEndpoint(Endpoint):
    """A route that nobody has to sign in for."""

    permission_classes = [AllowAny]


def problems(*statuses: int) -> dict[tuple[int, str], type[ProblemSerializer]]:
    """For the schema: these refusals, and those that every route may give."""
    return {(status, _PROBLEM): ProblemSerializer for status in sorted({*statuses, 401, 503})}
