"""Gives the tests a PostgreSQL and a Valkey before Django reads its settings.

Loaded by ``-p tests.services_plugin`` (see pyproject.toml), that is ahead of pytest-django. An
address that is already set is used as it is; what is missing is started here, in a temporary
folder, and stopped at the end. Workers of pytest-xdist inherit the addresses of their parent.
"""

import atexit
import contextlib
import os
import shutil
import tempfile
import uuid
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from portal.embedded.foreground import running
from portal.embedded.postgres import Postgres, new_socket_dir
from portal.embedded.valkey import Valkey

pytest_plugins = ["tests.needs"]

_services = contextlib.ExitStack()

# What a power cut would lose is lost anyway when the tests end.
QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


def _start_missing() -> None:
    home = Path(tempfile.mkdtemp(prefix="gangway-tests-", dir="/tmp"))
    _services.callback(shutil.rmtree, home, ignore_errors=True)
    if not os.environ.get("DATABASE_URL"):
        socket_dir = new_socket_dir()
        _services.callback(shutil.rmtree, socket_dir, ignore_errors=True)
        postgres = Postgres(home / "postgres", socket_dir, extra=QUICK)
        _services.enter_context(running(postgres, log=home / "postgres.log"))
        _services.enter_context(_set("DATABASE_URL", postgres.url))
    if not os.environ.get("REDIS_URL"):
        valkey = Valkey(home / "valkey")
        _services.enter_context(running(valkey, log=home / "valkey.log"))
        _services.enter_context(_set("REDIS_URL", valkey.url))


@contextlib.contextmanager
def _set(name: str, value: str):
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _set_secrets() -> None:
    os.environ.setdefault("GANGWAY_SECRET_KEY", "tests-only-" + "0" * 50)
    os.environ.setdefault("GANGWAY_SECRET_KEYS", Fernet.generate_key().decode())
    os.environ.setdefault("GANGWAY_INSTANCE", str(uuid.uuid4()))


# Runs while plugins named on the command line load: nothing of Django is imported yet.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _set_secrets()
    atexit.register(_services.close)  # also when pytest ends before it is set up
    _start_missing()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    _services.close()
