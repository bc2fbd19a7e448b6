"""May this run start here? Every check that can be made before anything is claimed.

Owns the refusals of class job and node, and the writing of the order. Claims nothing: a prepared
run that never starts has cost a folder.
"""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path
from typing import Any, Dict, Generator, List

from . import environment, facts, launch, report
from .files import write_bytes, write_json
from .gate import SLACK_MIB
from .machine import disk_gib
from .node import Node
from .order import checked
from .paths import RunPaths
from .protocol import Answer, Args, Refusal
from .waiting import Steps, Wait

Fact = Dict[str, Any]


def prepare(node: Node, args: Args) -> Steps:
    """Check and write the order; asked again it does so again, until the run is claimed."""
    order = checked(args)
    paths = node.root.run(order["run"])
    if facts.read(paths.claim) is not None:
        answer: Answer = {"boot_id": node.boot, "cards": {}, "report": report.of(paths, node.boot)}
        return answer
    check_user(order, paths)
    check_workdir(order, paths)
    check_disk(node, order)
    check_port(order)
    cards = yield from free_cards(node, order)
    order["baseline_mib"] = {uuid: card["used_mib"] for uuid, card in cards.items()}
    order["indexes"] = {uuid: card["index"] for uuid, card in cards.items()}
    order["boot_id"] = node.boot
    keep(node, paths, order)
    used = {uuid: {"used_mib": card["used_mib"]} for uuid, card in cards.items()}
    return {"boot_id": node.boot, "cards": used}


def keep(node: Node, paths: RunPaths, order: Fact) -> None:
    """The order last: before it is there, nothing of this run is."""
    folder_mode = 0o711 if order["account"] else 0o700  # another user must reach his command
    paths.folder.mkdir(mode=folder_mode, exist_ok=True)
    for folder in (paths.tmp, paths.work):
        folder.mkdir(mode=0o700, exist_ok=True)
    write_bytes(paths.command, order.pop("command").encode("utf-8"), mode=0o700)
    paths.progress.touch(mode=0o600)
    account = environment.person(order)
    if account.pw_uid != os.geteuid():
        for path in (paths.tmp, paths.work, paths.command, paths.progress):
            os.chown(str(path), account.pw_uid, account.pw_gid)
    node.root.mark_live(paths)
    write_json(paths.order, order)


def check_user(order: Fact, paths: RunPaths) -> None:
    if order["account"] is None:
        return
    try:
        account = pwd.getpwnam(order["account"])
    except KeyError:
        raise Refusal(
            "no_user",
            "job",
            "There is no Unix user {!r} on this node.".format(order["account"]),
            "Create the user here, or set another one for the member.",
        ) from None
    if account.pw_uid != os.geteuid() and os.geteuid() != 0:
        raise Refusal(
            "no_user",
            "job",
            "The node's account {} may not start a process as {}.".format(
                pwd.getpwuid(os.geteuid()).pw_name, account.pw_name
            ),
            "Give the account that right, or let the pool run jobs as one account.",
        )
    closed = [folder for folder in paths.folder.parents if not may_enter(account, folder)]
    if closed:
        raise Refusal(
            "no_user",
            "job",
            "The user {} may not enter {}, where the run would be.".format(
                account.pw_name, closed[-1]
            ),
            "Give the node a root that every user may pass through, such as /var/lib/gangway-node.",
        )


def may_enter(account: pwd.struct_passwd, folder: Path) -> bool:
    found = folder.stat()
    if account.pw_uid in (0, found.st_uid):
        return account.pw_uid == 0 or bool(found.st_mode & 0o100)
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return bool(found.st_mode & (0o010 if found.st_gid in groups else 0o001))


def check_workdir(order: Fact, paths: RunPaths) -> None:
    if order["workdir"] is None:
        return
    folder = launch.workdir(order, paths)
    if not folder.startswith("/"):
        cause = "The working directory {!r} is not absolute.".format(folder)
    elif not Path(folder).is_dir():
        cause = "The working directory {!r} does not exist on {}.".format(folder, hostname())
    elif not os.access(folder, os.X_OK):
        cause = "The working directory {!r} on {} may not be entered.".format(folder, hostname())
    else:
        return
    raise Refusal("no_workdir", "job", cause, "Create it on the node, or name another one.")


def hostname() -> str:
    return os.uname().nodename


def check_disk(node: Node, order: Fact) -> None:
    free_gib, total_gib = disk_gib(node.root.path)
    if free_gib < order["disk_gib"]:
        raise Refusal(
            "disk_full",
            "node",
            "{} GiB of {} GiB are free under {}; the job asks for {} GiB.".format(
                free_gib, total_gib, node.root.path, order["disk_gib"]
            ),
            "Free space on the node, or ask for less disk.",
        )


def check_port(order: Fact) -> None:
    """The port of rank 0 is needed on the node of rank 0 alone."""
    port = order["master_port"]
    if order["node_rank"] != 0 or port == 0:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # a connection in TIME_WAIT hinders nobody who sets this, and torch does
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except (OSError, OverflowError) as taken:
            raise Refusal(
                "port_taken",
                "node",
                "Port {} on {} cannot be used: {}.".format(port, hostname(), taken),
                "Free the port, or take another one for this job.",
            ) from taken


def free_cards(node: Node, order: Fact) -> Generator[Wait, None, Dict[str, Fact]]:
    """The order's cards, each there and used by nobody."""
    uuids: List[str] = order["cards"]
    if not uuids:
        return {}
    found = yield from node.nvml.ask({"ask": "cards", "uuids": uuids})
    error = found["nvml_error"]
    if error is not None:
        raise Refusal("card_missing", "node", error["cause"], error["next_step"])
    for uuid in uuids:
        check_card(uuid, found["cards"].get(uuid))
    cards: Dict[str, Fact] = found["cards"]
    return cards


def check_card(uuid: str, card: Any) -> None:
    if card is None or card["used_mib"] is None or "processes" in card["errors"]:
        why = "is not there" if card is None else "does not answer: {}".format(card["errors"])
        raise Refusal(
            "card_missing",
            "node",
            "Card {} {} on {}.".format(uuid, why, hostname()),
            "Probe the node and look at the card's health.",
        )
    if card["processes"]:
        cause = "Card {} is used by {}.".format(uuid, users(card["processes"]))
    elif card["used_mib"] > SLACK_MIB:
        cause = "Card {} has {} MiB in use by no process that can be seen.".format(
            uuid, card["used_mib"]
        )
    else:
        return
    raise Refusal("card_busy", "node", cause, "Wait until it is free, or ask its user to leave.")


def users(processes: List[Fact]) -> str:
    return ", ".join(
        "pid {} ({}, user {}{})".format(
            each["pid"],
            each["name"],
            each["user"] or each["uid"],
            ", run {}".format(each["run"]) if each["run"] else "",
        )
        for each in processes
    )
