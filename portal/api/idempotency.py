"""Once per key: a POST repeated under one Idempotency-Key is done once and answered the same.

The key's row is inserted in the transaction of the act, under UNIQUE(user, key). A crash between
the two leaves neither. A duplicate that comes while the first runs waits at that constraint, at
most ``WAIT_MS``, then sees the first one's answer, or does the act itself if the first was undone.
Refusals are not kept: nothing happened, so the same key may be tried again.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, connection, transaction
from django.http import HttpResponse
from django.utils.crypto import salted_hmac
from psycopg.errors import LockNotAvailable
from rest_framework.request import Request

from nodes import clock
from portal.models import IdempotencyKey
from scheduling.errors import SchedulingError

from .asked import refused
from .auth import person_of
from .errors import InvalidRequest

KEPT_FOR = timedelta(hours=24)
WAIT_MS = 5000
_KEY = re.compile(r"[\x21-\x7e]{1,200}\Z")

Act = Callable[[], HttpResponse]
Post = Callable[..., HttpResponse]


class KeyReused(InvalidRequest):
    """The key stands for another request."""

    code = "idempotency_key_reused"
    status = 422


class StillRunning(SchedulingError):
    """The first request under this key has not ended yet."""

    code = "idempotency_in_progress"
    status = 409


def idempotent(post: Post) -> Post:
    """Make a view's ``post`` honour Idempotency-Key."""

    @wraps(post)
    def wrapped(view: Any, request: Request, **kwargs: Any) -> HttpResponse:
        return once(request, person_of(request), lambda: post(view, request, **kwargs))

    return wrapped


def once(request: Request, user: User, act: Act) -> HttpResponse:
    """Do ``act`` in a transaction, or answer as it was answered before under the same key."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return act()
    if not _KEY.match(key):
        raise refused("Idempotency-Key", "An Idempotency-Key is 1 to 200 visible ASCII characters.")
    with transaction.atomic():
        row = _claim(user, key, _mark(request))
        if row.status:
            return _again(row, _mark(request))
        response = act()
        row.status = response.status_code
        row.location = response.get("Location", "")
        row.body = _box().encrypt(response.content)
        row.save(update_fields=["status", "location", "body"])
        return response


def prune() -> int:
    """Drop the keys that are too old to be honoured. Returns how many."""
    dropped, _ = IdempotencyKey.objects.filter(made_at__lt=clock.now() - KEPT_FOR).delete()
    return dropped


def _claim(user: User, key: str, mark: str) -> IdempotencyKey:
    """The new row of this key, or (status set) the one that holds the answer."""
    mine = IdempotencyKey.objects.filter(user=user, key=key)
    mine.filter(made_at__lt=clock.now() - KEPT_FOR).delete()
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{WAIT_MS}ms"])
            row = IdempotencyKey.objects.create(user=user, key=key, mark=mark)
            cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
            return row
    except IntegrityError:
        return mine.get()
    except OperationalError as busy:
        if isinstance(busy.__cause__, LockNotAvailable):
            raise StillRunning(
                f"The first request with this key still runs after {WAIT_MS // 1000} s.",
                next_step="Send the same request again in a second.",
            ) from None
        raise


def _again(row: IdempotencyKey, mark: str) -> HttpResponse:
    if row.mark != mark:
        raise KeyReused(
            "This Idempotency-Key was used for another request within the last 24 h.",
            next_step="Use a new key for a new request.",
        )
    try:
        body = _box().decrypt(bytes(row.body))
    except InvalidToken:
        raise KeyReused(
            "This request was carried out, but its answer can no longer be read.",
            next_step="Look at what it made; use a new key for a new request.",
        ) from None
    response = HttpResponse(body, status=row.status, content_type="application/json")
    response["Idempotent-Replayed"] = "true"
    if row.location:
        response["Location"] = row.location
    return response


def _mark(request: Request) -> str:
    """What the key stands for. Keyed, because a body may hold a password."""
    said = b"\n".join([f"{request.method} {request.get_full_path()}".encode(), request.body])
    return salted_hmac("gangway.idempotency", said, algorithm="sha256").hexdigest()


def _box() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.GANGWAY_SECRET_KEYS])
