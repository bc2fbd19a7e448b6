"""Where the portal is and the token for it: the environment first, then one file of mode 0600.

A token from the file is used for the address it was made for only.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import ClientError

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Login:
    """An address, a token for it (may be empty), and whose it is."""

    url: str
    token: str = ""
    username: str = ""


def path() -> Path:
    """The file; XDG_CONFIG_HOME is honoured."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "gangway" / "config.json"


def load() -> Login:
    """What GANGWAY_URL and GANGWAY_TOKEN say, else what was saved."""
    saved = _saved()
    url = os.environ.get("GANGWAY_URL") or saved.url
    token = os.environ.get("GANGWAY_TOKEN", "")
    if not token and url.rstrip("/") == saved.url.rstrip("/"):
        token = saved.token
    return Login(url, token, saved.username)


def save(login: Login) -> Path:
    """Write the file, readable by its owner only, whole or not at all."""
    target = path()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    spare = target.with_name(f"{target.name}.{os.getpid()}")
    handle = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        os.fchmod(file.fileno(), 0o600)
        json.dump(asdict(login), file)
    spare.replace(target)
    return target


def forget() -> None:
    """Remove the file."""
    path().unlink(missing_ok=True)


def _saved() -> Login:
    try:
        found = json.loads(path().read_text())
        return Login(str(found["url"]), str(found["token"]), str(found.get("username", "")))
    except FileNotFoundError:
        return Login(DEFAULT_URL)
    except (ValueError, KeyError, TypeError, OSError) as bad:
        raise ClientError(
            f"{path()} cannot be read: {bad}.", next_step="Remove it, then: gangway login"
        ) from bad
