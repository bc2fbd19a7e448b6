"""What each verb of the command does; returns its exit code."""

import getpass
import ipaddress
import json
import os
import socket
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from . import config, estimates, following, show, slots, told
from .client import Client, Json, LogPiece
from .connection import parsed
from .errors import Refused, Usage
from .orders import order_of

WATCH_S = 2.0
SUBMIT_PATIENCE_S = 30.0


def login(options: Namespace) -> int:
    url = (options.url or config.load().url).rstrip("/")
    at = parsed(url)
    if at.scheme == "http" and not _is_loopback(at.hostname or ""):
        show.tell(f"Warning: {url} is not encrypted; others on the way can read your password.")
    user = options.user or _asked("Name", getpass.getuser())
    name = f"gangway on {socket.gethostname()}"[:120]
    client = Client.login(url, user, _password(options, user, url), name=name)
    kept = config.save(config.Login(url, client.token, user))
    show.tell(f"Signed in to {url} as {user}. The token is in {kept}.")
    return 0


def logout(options: Namespace) -> int:
    if os.environ.get("GANGWAY_TOKEN"):
        raise Usage("The token comes from GANGWAY_TOKEN.", next_step="Unset that variable.")
    known = config.load()
    if known.token:
        try:
            Client(known.url, known.token).delete_token(known.token[:15])
        except Refused as refused:
            if refused.status not in (401, 404):  # it opens nothing any more: that was the wish
                raise
    config.forget()
    show.tell("Signed out.")
    return 0


def submit(options: Namespace) -> int:
    client = Client(patience_s=SUBMIT_PATIENCE_S)
    order = order_of(options, client)
    if options.preview:
        found = client.preview(order)
        show.say(json.dumps(found) if options.json else told.preview(found))
        return 0
    job = client.submit(order, key=options.key)
    job_id = job["id"]
    if options.json and not options.follow:
        show.say(json.dumps(job))
    elif not (options.follow or options.wait):
        show.say(str(job_id))
    show.tell(f"Job {job_id} is submitted for team {job['team']}.")
    for one in job.get("advice", ()):
        show.tell(show.clean(one["sentence"]))
    try:
        if options.follow:
            _print_log(following.follow(client, job_id))
        if options.follow or options.wait:
            return _end(following.wait(client, job_id))
    except KeyboardInterrupt:
        show.tell(f"\nJob {job_id} goes on. To end it: gangway cancel {job_id}")
        raise
    return 0


def ls(options: Namespace) -> int:
    client = Client()
    states = options.state or ([] if options.all else ["active"])
    while True:
        found = client.jobs(states=states, team=options.team, mine=options.mine)
        listed = list(islice(found, max(options.limit, 0)))
        if options.watch and sys.stdout.isatty():
            sys.stdout.write("\x1b[H\x1b[2J")
        show.say(json.dumps(listed) if options.json else show.jobs(listed))
        if not options.watch:
            return 0
        time.sleep(WATCH_S)


def show_job(options: Namespace) -> int:
    found = Client().job(options.id)
    show.say(json.dumps(found) if options.json else show.job(found))
    return 0


def explain(options: Namespace) -> int:
    found = Client().explain(options.id)
    show.say(json.dumps(found) if options.json else told.explanation(found))
    return 0


def logs(options: Namespace) -> int:
    if options.tail is not None and options.tail < 1:
        raise Usage("--tail is a number of bytes from 1.", next_step="Leave it out for all.")
    client, offset = Client(), -options.tail if options.tail else options.offset
    read = following.follow if options.follow else following.read
    _print_log(read(client, options.id, attempt=options.attempt, rank=options.rank, offset=offset))
    return 0


def cancel(options: Namespace) -> int:
    return _act(Client().cancel, options)


def hold(options: Namespace) -> int:
    return _act(Client().hold, options)


def release(options: Namespace) -> int:
    return _act(Client().release, options)


def wait(options: Namespace) -> int:
    return _end(following.wait(Client(), options.id))


def nodes(options: Namespace) -> int:
    return _listed(Client().nodes(), show.nodes, options)


def teams(options: Namespace) -> int:
    return _listed(Client().teams(), show.teams, options)


def tokens(options: Namespace) -> int:
    client = Client()
    if options.act == "list":
        return _listed(client.tokens(), show.tokens, options)
    if not options.which:
        raise Usage(f"tokens {options.act} needs a name or a prefix.", next_step="Add it.")
    if options.act == "delete":
        client.delete_token(options.which)
        return 0
    made = client.create_token(options.which)
    show.say(json.dumps(made) if options.json else str(made["token"]))
    show.tell("Keep it: it is not shown again.")
    return 0


VERBS: dict[str, Callable[[Namespace], int]] = {
    "login": login,
    "logout": logout,
    "submit": submit,
    "ls": ls,
    "show": show_job,
    "explain": explain,
    "estimate": estimates.run,
    "logs": logs,
    "cancel": cancel,
    "hold": hold,
    "release": release,
    "wait": wait,
    "reserve": slots.reserve,
    "reservations": slots.reservations,
    "env": slots.env,
    "nodes": nodes,
    "teams": teams,
    "tokens": tokens,
}


def _act(verb: Callable[..., Json], options: Namespace) -> int:
    job = verb(options.id, reason=options.reason)
    show.tell(f"Job {job['id']} is {job['state']}.")
    return 0


def _end(job: Json) -> int:
    show.tell(f"Job {job['id']} has ended: {job['state']}.")
    return following.exit_code(job)


def _listed(found: list[Json], as_text: Callable[[Iterable[Json]], str], options: Namespace) -> int:
    show.say(json.dumps(found) if options.json else as_text(found))
    return 0


def _print_log(pieces: Iterable[LogPiece]) -> None:
    expected: tuple[Any, int] | None = None
    for piece in pieces:
        if expected and expected[0] == piece.attempt and piece.offset > expected[1]:
            show.tell(f"[bytes {expected[1]} to {piece.offset} of this log were not kept]")
        sys.stdout.buffer.write(piece.data)
        sys.stdout.buffer.flush()
        expected = (piece.attempt, piece.next_offset)


def _password(options: Namespace, user: str, url: str) -> str:
    if options.password_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise Usage(
            "There is no terminal to ask for a password.", next_step="Add --password-stdin."
        )
    return getpass.getpass(f"Password of {user} at {url}: ")


def _asked(what: str, default: str) -> str:
    if not sys.stdin.isatty():
        return default
    show.tell(f"{what} [{default}]:")
    return sys.stdin.readline().strip() or default


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
