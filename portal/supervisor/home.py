"""The portal's own folder, ``.gangway``: its lock, its secrets, its identity, its addresses.

Every file that can hold a secret has mode 0600 from its first byte. What lies here and nowhere
else (secrets.json, instance, postgres/) is what a backup has to keep.
"""

import base64
import fcntl
import json
import os
import secrets
import uuid
from pathlib import Path
from typing import IO, Any

from .errors import StartError


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Write JSON beside and rename, mode 0600: a reader never sees half of it."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        json.dump(content, out, indent=2)
        out.write("\n")
    part.replace(path)


def read(path: Path) -> dict[str, Any]:
    """The file's content; an absent or broken one is empty."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def lock(home: Path) -> IO[str]:
    """Hold the folder until the returned file is closed or this process ends, however it ends.

    Raises:
        StartError: another instance holds it, or the folder is not ours to use.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)
        held = (home / "lock").open("a+")
    except OSError as refused:
        raise StartError(
            f"The folder {home} cannot be used: {refused.strerror}.",
            next_step="Own it, or set GANGWAY_HOME to a folder of yours.",
        ) from refused
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.seek(0)
        holder = held.read().strip() or "unknown"
        held.close()
        raise StartError(
            f"Gangway already runs in {home} (process {holder}).",
            next_step="Stop it there with Ctrl-C, or give this one its own GANGWAY_HOME and "
            "GANGWAY_BIND.",
        ) from None
    held.truncate(0)
    held.write(str(os.getpid()))
    held.flush()
    return held


def keep_identity(home: Path) -> None:
    """Make the secrets and the instance's name on first use; never change them afterwards."""
    if not (home / "secrets.json").exists():
        fernet = base64.urlsafe_b64encode(os.urandom(32)).decode()
        content = {"secret_key": secrets.token_urlsafe(48), "secret_keys": [fernet]}
        write_private(home / "secrets.json", content)
    if not (home / "instance").exists():
        (home / "instance").write_text(f"{uuid.uuid4()}\n")
