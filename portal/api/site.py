"""What there is: nodes, cards, the reader's teams, the reader."""

from typing import Any

from django.http import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from portal import access
from scheduling import queries

from . import shapes_site
from .answers import tagged
from .auth import person_of, viewer_of
from .endpoint import Endpoint, problems


class Nodes(Endpoint):
    """All machines with their cards."""

    @extend_schema(
        operation_id="list_nodes", responses={200: shapes_site.NodesSerializer, **problems()}
    )
    def get(self, request: Request) -> HttpResponseBase:
        shape = shapes_site.NodesSerializer({"results": queries.nodes()}, context=_reader(request))
        return tagged(request, shape.data)


class Gpus(Endpoint):
    """All cards."""

    @extend_schema(
        operation_id="list_gpus", responses={200: shapes_site.GpusSerializer, **problems()}
    )
    def get(self, request: Request) -> HttpResponseBase:
        cards = [card for node in queries.nodes() for card in shapes_site.cards_of(node)]
        shape = shapes_site.GpusSerializer({"results": cards}, context=_reader(request))
        return tagged(request, shape.data)


class Teams(Endpoint):
    """The teams the reader may see."""

    @extend_schema(
        operation_id="list_teams", responses={200: shapes_site.TeamsSerializer, **problems()}
    )
    def get(self, request: Request) -> HttpResponseBase:
        found = queries.teams(viewer_of(request))
        return tagged(request, shapes_site.TeamsSerializer({"results": found}).data)


class Me(Endpoint):
    """The reader."""

    @extend_schema(operation_id="get_me", responses={200: shapes_site.MeSerializer, **problems()})
    def get(self, request: Request) -> HttpResponseBase:
        user = person_of(request)
        me = {
            "username": user.username,
            "operator": access.is_operator(user),
            "auditor": access.is_auditor(user),
            "teams": queries.teams(viewer_of(request)),
        }
        return tagged(request, shapes_site.MeSerializer(me).data)


def _reader(request: Request) -> dict[str, Any]:
    return {
        "viewer": viewer_of(request),
        "operator": access.is_operator(request.user),
    }
