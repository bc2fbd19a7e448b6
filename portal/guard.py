"""Against guessing passwords: tries are counted before the password is looked at.

Counters live in the cache for ``WINDOW_S``. The limit for a name at one address is low, that for
a name from everywhere is higher, and a try over an earlier limit does not reach the later ones:
one address alone cannot lock somebody out everywhere.
"""

import hashlib
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from redis.exceptions import RedisError
from rest_framework.exceptions import Throttled

from scheduling.errors import SchedulingError

WINDOW_S = 300
PER_NAME_AND_ADDRESS = 10
PER_NAME = 50
PER_ADDRESS = 100


class CannotCount(SchedulingError):
    """Without the counters a password is not looked at."""

    code = "unavailable"
    status = 503


@dataclass(frozen=True, slots=True)
class _Counter:
    key: str
    limit: int


def address_of(request: HttpRequest) -> str:
    """Who asks: the peer, or behind a trusted proxy the last hop that the proxy itself saw."""
    peer = str(request.META.get("REMOTE_ADDR", ""))
    seen = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip()
    if peer not in settings.GANGWAY_TRUSTED_PROXIES or not seen:
        return peer
    try:
        return str(ip_address(seen))
    except ValueError:
        return peer


def admit(username: str, address: str) -> None:
    """Count one try. Raises Throttled when there were too many, CannotCount without the cache."""
    try:
        over = any(_count(c.key) > c.limit for c in _counters(username, address))
    except RedisError as gone:
        raise CannotCount(
            "Sign-in by password is not possible just now.",
            next_step="Try again in a minute; tokens work as before.",
        ) from gone
    if over:
        raise Throttled(wait=WINDOW_S, detail=f"Too many tries; wait {WINDOW_S // 60} min.")


def forgive(username: str, address: str) -> None:
    """The password was right: the tries for this name were no guesses, one of the address's not."""
    of_address, pair, name = _counters(username, address)
    cache.delete_many([pair.key, name.key])
    with suppress(ValueError):  # expired meanwhile
        cache.decr(of_address.key)


def _counters(username: str, address: str) -> tuple[_Counter, ...]:
    """From the widest to the narrowest; all spellings that sign-in takes for one name are one."""
    plain = unicodedata.normalize("NFKC", username).strip().casefold()
    name = hashlib.sha256(plain.encode()).hexdigest()[:32]
    return (
        _Counter(f"guess:@{address}", PER_ADDRESS),
        _Counter(f"guess:{name}:{address}", PER_NAME_AND_ADDRESS),
        _Counter(f"guess:{name}", PER_NAME),
    )


def _count(key: str) -> int:
    cache.add(key, 0, timeout=WINDOW_S)
    try:
        return cache.incr(key)
    except ValueError:  # it expired in between: a new window begins
        cache.set(key, 1, timeout=WINDOW_S)
        return 1
