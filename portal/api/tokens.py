"""Tokens: made with a password (for the command) or when signed in, listed, deleted.

A token is shown in the answer that made it and never again.
"""

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from knox.models import AuthToken
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from nodes import clock
from portal import guard
from portal.models import TokenName
from scheduling import actors, audit
from scheduling.errors import NotFound

from . import asked, shapes_site
from .answers import rendered, tagged
from .auth import person_of
from .endpoint import Endpoint, OpenEndpoint, problems
from .idempotency import once
from .jobs import KEY


class Tokens(OpenEndpoint):
    """The reader's tokens, and new ones."""

    @extend_schema(
        operation_id="list_tokens", responses={200: shapes_site.TokensSerializer, **problems()}
    )
    def get(self, request: Request) -> HttpResponseBase:
        mine = AuthToken.objects.filter(user=person_of(request)).select_related("named")
        shape = shapes_site.TokensSerializer({"results": mine.order_by("created")})
        return tagged(request, shape.data)

    @extend_schema(
        operation_id="create_token",
        parameters=[KEY],
        request=shapes_site.TokenOrderSerializer,
        responses={201: shapes_site.NewTokenSerializer, **problems(400, 409, 415, 422, 429)},
    )
    def post(self, request: Request) -> HttpResponse:
        sent = asked.body(request, "name", "username", "password")
        name = asked.text(sent.get("name"), "name", most=120, default="")
        by_password = "username" in sent or "password" in sent
        user = _by_password(request) if by_password else person_of(request)
        return once(request, user, lambda: _made(user, name))


class OneToken(Endpoint):
    """One token of the reader."""

    @extend_schema(
        operation_id="delete_token",
        parameters=[OpenApiParameter("prefix", str, OpenApiParameter.PATH)],
        responses={204: None, **problems(404)},
    )
    def delete(self, request: Request, prefix: str) -> HttpResponse:
        user = person_of(request)
        with transaction.atomic():
            dropped, _ = AuthToken.objects.filter(user=user, token_key=prefix).delete()
            if not dropped:
                raise NotFound("You have no such token.", next_step="See GET /api/v1/tokens.")
            audit.note(actors.person(user), "delete token", f"token {prefix}", at=clock.now())
        return HttpResponse(status=204)


def _by_password(request: Request) -> User:
    sent = asked.body(request)
    username = asked.text(sent.get("username"), "username", most=150)
    password = asked.text(sent.get("password"), "password", most=4096)
    address = guard.address_of(request._request)
    guard.admit(username, address)
    user = authenticate(request._request, username=username, password=password)
    if not isinstance(user, User):
        raise AuthenticationFailed("The name or the password is wrong.")
    guard.forgive(username, address)
    return user


def _made(user: User, name: str) -> HttpResponse:
    with transaction.atomic():
        token, shown = AuthToken.objects.create(user=user)
        TokenName.objects.create(token=token, name=name)
        subject = f"token {token.token_key}"
        audit.note(actors.person(user), "create token", subject, at=clock.now(), name=name)
    response = rendered(
        shapes_site.NewTokenSerializer(token, context={"token": shown}).data, status=201
    )
    response["Cache-Control"] = "no-store"
    return response
