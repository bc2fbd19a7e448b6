"""What all stories about pages and API share beside the cast."""

import pytest


@pytest.fixture(autouse=True)
def _quick_passwords(settings):
    """A hash that is slow on purpose would be most of the tests' time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
