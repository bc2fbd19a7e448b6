"""The OpenAPI document of all routes, and the answer to every other address."""

from functools import cache
from typing import Any, NoReturn

from django.http import Http404, HttpResponseBase
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from .answers import tagged
from .endpoint import OpenEndpoint


class Schema(OpenEndpoint):
    """This document."""

    @extend_schema(operation_id="get_schema", responses={200: dict[str, Any]})
    def get(self, request: Request) -> HttpResponseBase:
        return tagged(request, document())


class NothingHere(OpenEndpoint):
    """Any address that no route has, with any method."""

    http_method_names = ["get", "head", "post", "put", "patch", "delete", "options"]
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        raise Http404


@cache
def document() -> dict[str, Any]:
    """The schema; made once a process, since routes do not change while it runs."""
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found
