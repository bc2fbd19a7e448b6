"""Who sends a request: a token of ours, or a signed-in browser with its CSRF token.

A token is 256 bits at random, shown once, kept as a digest (django-rest-knox).
"""

import re
from typing import Any

from django.contrib.auth.models import User
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from knox.models import AuthToken
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.request import Request

from portal import access
from scheduling.queries import Viewer

_TOKEN = re.compile(rb"gw_[0-9a-f]{64}\Z")


class BearerAuthentication(TokenAuthentication):  # type: ignore[misc]
    """``Authorization: Bearer gw_…``. What cannot be a token never reaches the database."""

    def authenticate_credentials(self, token: bytes) -> tuple[User, AuthToken]:
        if not _TOKEN.match(token):
            raise AuthenticationFailed("This is not a token of this portal.")
        found: tuple[User, AuthToken] = super().authenticate_credentials(token)
        return found


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names it."""

    target_class = BearerAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "gw_ and 64 hex digits"}


def person_of(request: Request) -> User:
    """The signed-in user. Raises NotAuthenticated for nobody."""
    if not isinstance(request.user, User):
        raise NotAuthenticated
    return request.user


def viewer_of(request: Request) -> Viewer:
    """What the reader may see; asked of the database once for each request."""
    known: Viewer | None = getattr(request, "gangway_viewer", None)
    if known is None:
        known = access.viewer(request.user)
        request.gangway_viewer = known  # type: ignore[attr-defined]
    return known
