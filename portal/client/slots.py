"""What the verbs about reservations do; returns their exit codes."""

import json
import shlex
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from . import show
from .client import Client, Json
from .errors import Usage
from .orders import team_of
from .when import moment

_FIELDS = ("title", "gpus", "nodes", "gpu_model", "gpu_memory_gib", "on", "cards", "duration")


def reserve(options: Namespace) -> int:
    """Book a slot, change one, end one, or ask when it would be free."""
    client = Client()
    if options.end_it is not None:
        return _told(client.end_reservation(options.end_it), options)
    order: Json = {name: value for name in _FIELDS if (value := getattr(options, name))}
    if options.start:
        order["start"] = moment(options.start)
    if options.until:
        order["end"] = moment(options.until)
    if options.change is not None:
        return _told(client.change_reservation(options.change, order), options)
    if not options.maintenance:
        order["team"] = team_of(options.team, client)
    if options.next_free:
        return _next_free(client, order, options)
    if options.maintenance:
        order["kind"] = "maintenance"
    return _told(client.reserve(order, key=options.key), options)


def reservations(options: Namespace) -> int:
    """List what is booked by one's teams, or by oneself."""
    found = Client().reservations(mine=options.mine)["results"]
    show.say(json.dumps(found) if options.json else _table(found))
    return 0


def env(options: Namespace) -> int:
    """Lines for ``eval``: the node, and the cards of the reservation there."""
    found = Client().reservation(options.id)
    nodes: dict[str, list[str]] = defaultdict(list)
    for card in found["cards"]:
        nodes[card["node"]].append(card["uuid"])
    node = options.node or next(iter(nodes), "")
    if node not in nodes:
        raise Usage(
            f"Reservation {found['id']} has no cards on {node!r}.",
            next_step=f"It has cards on {', '.join(nodes) or 'no node'}.",
        )
    if not options.node and len(nodes) > 1:
        raise Usage(
            f"Reservation {found['id']} has cards on {len(nodes)} nodes.",
            next_step=f"Name one with --node: {', '.join(nodes)}.",
        )
    if found["state"] != "active":
        show.tell(f"Reservation {found['id']} is {found['state']}: the cards are not yours now.")
    for name, value in _variables(found, node, nodes[node]):
        show.say(f"export {name}={shlex.quote(value)}")
    return 0


def _variables(found: Json, node: str, uuids: list[str]) -> Iterable[tuple[str, str]]:
    yield "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
    yield "CUDA_VISIBLE_DEVICES", ",".join(uuids)
    yield "GANGWAY_NODE", node
    yield "GANGWAY_RESERVATION", str(found["id"])
    yield "GANGWAY_UNTIL", str(found["end"])


def _next_free(client: Client, order: Json, options: Namespace) -> int:
    known = ("gpus", "nodes", "gpu_model", "gpu_memory_gib", "team", "start", "duration")
    asked = {name: order[name] for name in known if name in order}
    if order.get("on"):
        asked["on"] = " ".join(order["on"])
    found = client.next_free(**asked)
    if options.json:
        show.say(json.dumps(found))
    else:
        show.say(show.when(found["start"]) or "never")
    return 0 if found["start"] else 1


def _told(found: Json, options: Namespace) -> int:
    show.say(json.dumps(found) if options.json else str(found["id"]))
    slot = f"{show.when(found['start'])} to {show.when(found['end'])}"
    show.tell(f"Reservation {found['id']} is {found['state']}: {_where(found)}, {slot}.")
    return 0


def _table(found: Iterable[Json]) -> str:
    head = ("ID", "STATE", "TEAM", "USER", "GPUS", "FROM", "TO", "EXTENDABLE TO", "WHERE", "TITLE")
    return show.table(head, (_row(one) for one in found))


def _row(one: Json) -> tuple[Any, ...]:
    until = show.when(one["extendable_until"]) or None
    slot = (show.when(one["start"]), show.when(one["end"]), until)
    return (
        one["id"], one["state"], one["team"], one["user"], one["gpus"], *slot, _where(one),
        one["title"],
    )  # fmt: skip


def _where(found: Json) -> str:
    nodes: dict[str, list[str]] = defaultdict(list)
    for card in found["cards"]:
        nodes[card["node"]].append(str(card["index"]))
    return "; ".join(f"{node} GPU {','.join(cards)}" for node, cards in nodes.items()) or "no cards"
