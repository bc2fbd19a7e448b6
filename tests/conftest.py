"""The cast of every story: alice and carol in vision, bob and dave in speech, root operates.

Carol leads vision, Dave leads speech. ``shop`` gives the rules (teams, pool, priority classes,
16 GPUs a team); nodes come from ``tests.builders``.
"""

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests import builders

# How quick the machine is today is no property of the code.
hypothesis_settings.register_profile(
    "gangway", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("gangway")


@pytest.fixture(autouse=True)
def _hints_are_rows_only(settings):
    """No test sends a message to a worker; those that want one say so."""
    settings.GANGWAY_HINTS = False
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def shop(db) -> builders.Shop:
    return builders.shop()


@pytest.fixture
def alice(shop) -> User:
    return shop.users["alice"]


@pytest.fixture
def carol(shop) -> User:
    return shop.users["carol"]


@pytest.fixture
def bob(shop) -> User:
    return shop.users["bob"]


@pytest.fixture
def dave(shop) -> User:
    return shop.users["dave"]


@pytest.fixture
def root(shop) -> User:
    return shop.users["root"]


@pytest.fixture
def client_of() -> Callable[[User], Client]:
    def sign_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    yield
    cache.clear()
