"""The embedded servers, for real: every way PostgreSQL can be run on a machine, and Valkey."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
import redis

import portal
from portal.embedded import account, postgres, valkey
from portal.embedded.errors import EmbeddedError
from portal.embedded.foreground import running

BASE_DIR = Path(portal.__file__).parent.parent
ASK = """
import subprocess, sys, pathlib
sys.path.insert(0, sys.argv[1])
from portal.embedded import account, foreground, postgres
home = account.COPIES = pathlib.Path(sys.argv[2])
server = postgres.Postgres(home / "data", home / "s", extra={"fsync": "off"})
with foreground.running(server, log=home / "log"):
    words = [str(server._bin / "psql"), "-wAtqc", "create extension btree_gist; select 6 * 7"]
    subprocess.run([*words, server.url], check=True)
"""


@pytest.fixture
def short_home():
    """A folder whose name leaves room for a socket path, and that every account may enter."""
    home = Path(tempfile.mkdtemp(prefix="gangway-test-", dir="/tmp"))
    home.chmod(0o755)
    (home / "s").mkdir(mode=0o700)
    yield home
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def site():
    """The embedded package and its wheel where every account may read them, and nothing else.

    What runs there proves by running that it needs the standard library only.
    """
    site = Path(tempfile.mkdtemp(prefix="gangway-site-", dir="/tmp"))
    site.chmod(0o755)
    shutil.copytree(BASE_DIR / "portal/embedded", site / "portal/embedded")
    (site / "portal/__init__.py").touch()
    package = postgres.package()
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, site / folder.name, symlinks=True)
    yield site
    shutil.rmtree(site)


def ask(site: Path, home: Path, *, before: tuple[str, ...] = (), env: dict[str, str] | None = None):
    """Start PostgreSQL from nothing in another process; what it answered to 6 * 7."""
    words = [*before, sys._base_executable, "-I", "-c", ASK, str(site), str(home)]
    return subprocess.run(
        words, env=env, cwd=home, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def shim(folder: Path, *failing: str) -> dict[str, str]:
    """An environment in which these programs exist and refuse."""
    folder.mkdir()
    for name in failing:
        (folder / name).write_text("#!/bin/sh\necho not permitted here >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.needs_root
def test_root_gets_a_database_whose_files_stay_roots_own(site, short_home):
    done = ask(site, short_home)

    assert done.stdout == "42\n", done.stderr
    assert (short_home / "data").stat().st_uid == 0


@pytest.mark.needs("setpriv")
@pytest.mark.needs_root
def test_root_gets_a_database_even_where_user_namespaces_are_forbidden(site, short_home):
    done = ask(site, short_home, env=shim(short_home / "shim", "unshare"))

    assert done.stdout == "42\n", done.stderr
    assert (short_home / "data").stat().st_uid == pwd.getpwnam("nobody").pw_uid


@pytest.mark.needs("setpriv")
@pytest.mark.needs_root
def test_a_data_folder_that_another_account_cannot_reach_is_put_where_it_can(short_home):
    (short_home / "private").mkdir(mode=0o700)
    server = postgres.Postgres(short_home / "private/data", short_home / "s")
    server._account = account.Account(("setpriv", "--reuid=nobody", "--clear-groups"))

    server._give_to(pwd.getpwnam("nobody").pw_uid, 0)

    away = (short_home / "private/data").resolve()
    assert away.parent != short_home / "private"
    assert away.stat().st_uid == pwd.getpwnam("nobody").pw_uid
    away.rmdir()


@pytest.mark.needs("setpriv")
def test_an_ordinary_user_gets_a_database(site, short_home):
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(short_home, nobody.pw_uid, nobody.pw_gid)
        os.chown(short_home / "s", nobody.pw_uid, nobody.pw_gid)
        ids = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}")
        before = ("setpriv", *ids, "--clear-groups", "--")

    done = ask(site, short_home, before=before)

    assert done.stdout == "42\n", done.stderr
    assert (short_home / "data").stat().st_uid == short_home.stat().st_uid


@pytest.mark.needs_root
def test_a_machine_that_allows_no_way_says_so_and_names_database_url(short_home, monkeypatch):
    monkeypatch.setenv("PATH", shim(short_home / "shim", "unshare", "setpriv")["PATH"])

    with pytest.raises(EmbeddedError, match="not permitted here") as refusal:
        account.choose(short_home / "data")

    assert "DATABASE_URL" in refusal.value.next_step


def test_the_address_of_the_database_is_read_by_psycopg(short_home):
    server = postgres.Postgres(short_home / "data", short_home / "s", extra={"fsync": "off"})
    with running(server, log=short_home / "log"), psycopg.connect(server.url) as connection:
        row = connection.execute("show synchronous_commit").fetchone()
        who = connection.execute("select current_user, current_database()").fetchone()

    assert row == ("on",)
    assert who == ("gangway", "gangway")


def test_a_lock_file_with_a_recycled_process_number_does_not_stop_the_database(short_home):
    server = postgres.Postgres(short_home / "data", short_home / "s", extra={"fsync": "off"})
    server.prepare()
    lock = short_home / "data/postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{short_home / 'data'}\n1\n5432\n{short_home / 's'}\n\n")

    with running(server, log=short_home / "log"):
        assert int(lock.read_text().splitlines()[0]) != os.getpid()


def test_one_broker_address_serves_redis_clients_and_refuses_strangers(tmp_path):
    server = valkey.Valkey(tmp_path)
    with running(server, log=tmp_path / "log"):
        assert redis.Redis.from_url(server.url).ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port).ping()

    assert server.password not in " ".join(server.command())
    assert (tmp_path / "valkey.conf").stat().st_mode & 0o077 == 0
