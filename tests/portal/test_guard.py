"""Whose tries are counted: the peer's, or what a trusted proxy saw; never what anybody claims."""

import pytest
from django.test import RequestFactory

from portal import guard


@pytest.mark.parametrize(
    ("peer", "forwarded", "who"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "192.0.2.66, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1, not an address", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
    ],
)
def test_only_a_trusted_proxy_says_who_asks_and_only_what_it_saw(settings, peer, forwarded, who):
    settings.GANGWAY_TRUSTED_PROXIES = ["10.0.0.1"]
    headers = {"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {}

    assert guard.address_of(RequestFactory().get("/", REMOTE_ADDR=peer, **headers)) == who
