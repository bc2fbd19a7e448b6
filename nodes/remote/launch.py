"""One process of a run: forked, given its log, folder, user and environment, and executed.

Owns what happens between fork and exec. Never waits for what it started: the keeper does.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional

from . import environment, tree
from .detach import die_with_parent
from .files import write_all
from .paths import RunPaths

NOT_FOUND, NOT_EXECUTABLE = 127, 126


class Rank(NamedTuple):
    """A process of the run that counts: `rank` is its number in the whole job."""

    rank: int
    pid: int
    start: int
    log: str


def several(order: Dict[str, Any]) -> int:
    """How many processes this part starts."""
    return max(1, order["ranks"]) if order["launch"] == "per_gpu" else 1


def start_rank(order: Dict[str, Any], paths: RunPaths, bin_dir: Path, local: int) -> Rank:
    """Start one; a program that cannot be executed exits 126 or 127 and says why in its log."""
    number = order["first_rank"] + local
    log = paths.log(number, several(order) > 1)
    settings = encoded(environment.of_rank(order, paths, bin_dir, local))
    child = os.fork()
    if child == 0:
        become(order, paths, log, settings)
    return Rank(number, child, tree.start_of(child), log.name)


def encoded(settings: Dict[str, str]) -> Dict[bytes, bytes]:
    # UTF-8 whatever the node's locale: an order must reach the job as it was written
    return {key.encode("utf-8"): value.encode("utf-8") for key, value in settings.items()}


def become(order: Dict[str, Any], paths: RunPaths, log: Path, env: Dict[bytes, bytes]) -> None:
    """In the child: never returns."""
    try:
        # between fork and exec it carries no marker yet: a keeper killed now must take it along
        die_with_parent()
        os.setsid()
        redirect(log)
        reset_signals()
        change_user(order)
        os.chdir(workdir(order, paths).encode("utf-8"))
        die_with_parent(False)
        execute(paths.command, env)
    except OSError as broken:
        code = NOT_FOUND if isinstance(broken, FileNotFoundError) else NOT_EXECUTABLE
        say("gangway: the command could not be started: {}.\n".format(broken))
        os._exit(code)
    finally:
        os._exit(NOT_EXECUTABLE)


def redirect(log: Path) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    out = os.open(str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)


def reset_signals() -> None:
    """What Python and the keeper ignore would stay ignored across exec."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                pass  # the C library keeps two real-time signals to itself
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def change_user(order: Dict[str, Any]) -> None:
    account = environment.person(order)
    if account.pw_uid != os.geteuid():
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)


def workdir(order: Dict[str, Any], paths: RunPaths) -> str:
    """Where the command starts: the order's folder, `~` expanded, or the run's own."""
    asked: Optional[str] = order["workdir"]
    if asked is None:
        return str(paths.work)
    if asked == "~" or asked.startswith("~/"):
        return environment.person(order).pw_dir + asked[1:]
    return asked


def execute(command: Path, env: Dict[bytes, bytes]) -> None:
    name = str(command).encode("utf-8")
    with command.open("rb") as script:
        has_interpreter = script.read(2) == b"#!"
    argv = [name] if has_interpreter else [b"/bin/sh", name]
    os.execve(argv[0], argv, env)  # noqa: S606 - the order's own command, run as its user


def say(words: str) -> None:
    write_all(2, words.encode("utf-8", "replace"))
