"""The Procfile: which processes there are, by name, and the words that start each.

It is the only list; the supervisor starts what it says, in its order, and a test holds
docker-compose.yml to it.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from string import Template

from .errors import StartError


def parse(text: str, environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Name -> words, with ``$NAME`` and ``${NAME}`` filled from ``environment``, in file order."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, command = line.partition(":")
        try:
            if not colon:
                raise ValueError("no colon after the name")
            found[name.strip()] = [
                Template(w).substitute(environment) for w in shlex.split(command)
            ]
        except (ValueError, KeyError) as wrong:
            raise StartError(
                f"The Procfile's line {line.strip()!r} cannot be used ({wrong}).",
                next_step="Write it as name: command, with variables that are set.",
            ) from wrong
    return found


def load(path: Path, environment: Mapping[str, str]) -> dict[str, list[str]]:
    return parse(path.read_text(), environment)
