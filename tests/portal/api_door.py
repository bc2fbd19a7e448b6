"""How the stories speak to the API: a person's token, JSON out, routes relative to /api/v1/."""

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from knox.models import AuthToken

BASE = "/api/v1/"


class Door:
    """A program that holds a person's token (or nobody's)."""

    def __init__(self, user: User | None = None, **client: Any) -> None:
        self.client = Client(**client)
        self.auth = {}
        if user is not None:
            self.auth = {"Authorization": f"Bearer {AuthToken.objects.create(user)[1]}"}

    def get(self, route: str, headers: dict[str, str] | None = None):
        return self.client.get(_at(route), headers={**self.auth, **(headers or {})})

    def post(
        self,
        route: str,
        body: Any = None,
        *,
        key: str | None = None,
        raw: bytes | None = None,
        content_type: str = "application/json",
    ):
        headers = {**self.auth, **({"Idempotency-Key": key} if key is not None else {})}
        sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        return self.client.post(_at(route), sent, content_type=content_type, headers=headers)

    def any(self, method: str, route: str):
        return self.client.generic(method, _at(route), headers=self.auth)


def door(user: User | None = None, **client: Any) -> Door:
    return Door(user, **client)


def _at(route: str) -> str:
    return route if route.startswith("/") else BASE + route
