"""From the options of ``gangway submit`` to a job as sent."""

import os
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from .client import Client, Json
from .errors import ClientError, Usage
from .options import AXES, SUBMIT_FIELDS


def order_of(options: Namespace, client: Client) -> Json:
    """What is sent: the fields that were given, and the team."""
    order: Json = {
        name: getattr(options, name) for name in SUBMIT_FIELDS if getattr(options, name) is not None
    }
    order["command"] = _command(options)
    if options.env:
        order["env"] = dict(_pair(text, os.environ) for text in options.env)
    if options.label:
        order["labels"] = dict(_pair(text, {}) for text in options.label)
    checkpoint = {
        "grace_s": options.grace,
        "signal": options.signal,
        "to": options.signal_to,
        "interval_s": options.saves_every,
    }
    given = {name: value for name, value in checkpoint.items() if value is not None}
    if given:
        order["checkpoint"] = given
    axes = {axis: getattr(options, axis) for axis in AXES if getattr(options, axis) is not None}
    if axes:
        order["parallelism"] = axes
    order |= _near(options) | _after(options.after, options.after_any)
    if options.no_requeue:
        order["requeue"] = False
    if "team" not in order:
        order["team"] = only_team(client)
    return order


def team_of(named: str | None, client: Client) -> str:
    """The team that was named, else the only one there is."""
    return named or only_team(client)


def _near(options: Namespace) -> Json:
    if not (options.within or options.prefer):
        return {}
    how = "required" if options.within else "preferred"
    return {"topology": {how: options.within or options.prefer}}


def _after(succeeded: str | None, ended: str | None) -> Json:
    if not (succeeded or ended):
        return {}
    if succeeded and ended:
        raise Usage("--after and --after-any were given.", next_step="Give one of the two.")
    listed = [one.strip().lstrip("#") for one in (succeeded or ended or "").split(",")]
    if not all(one.isascii() and one.isdigit() for one in listed):
        raise Usage("--after wants the numbers of jobs.", next_step="Write them as in 12,13.")
    return {"after": {"jobs": [int(one) for one in listed], "end": "any" if ended else "ok"}}


def _command(options: Namespace) -> str:
    script = options.file or options.script
    if options.words is not None:
        if script:
            raise Usage("A script and a command were given.", next_step="Give one of the two.")
        return shlex.join(options.words)
    if not script and sys.stdin.isatty():
        raise Usage(
            "No command was given.",
            next_step="Put it behind --, as in: gangway submit -- nvidia-smi",
        )
    return _read(script or "-")


def _read(script: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if script == "-" else Path(script).read_bytes()
        return raw.decode()
    except OSError as missing:
        raise Usage(
            f"The script {script} cannot be read: {missing.strerror}.",
            next_step="To run a command, put -- before it.",
        ) from None
    except UnicodeDecodeError:
        raise ClientError(
            f"The script {script} is not text in UTF-8.",
            next_step="Put a program on the nodes and submit the command that starts it.",
        ) from None


def _pair(text: str, known: Any) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals and name:
        return name, value
    if name in known:
        return name, known[name]
    raise Usage(f"{text!r} is not NAME=VALUE.", next_step="Write it as NAME=VALUE.")


def only_team(client: Client) -> str:
    mine = [team["name"] for team in client.me()["teams"] if team["leaf"]]
    if len(mine) == 1:
        return str(mine[0])
    known = f"You have {', '.join(mine)}." if mine else "You are in no team."
    step = "Choose one with --team." if mine else "Ask a lead to add you to a team."
    raise Usage(f"For which team is the job? {known}", next_step=step)
