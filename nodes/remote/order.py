"""The order of a run as it is sent and as it is kept.

Owns the checks of its fields. Never looks at the machine: prepare.py does.
A new field: check it in `checked`, name it in docs/node-protocol.md.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .protocol import (
    MAX_COMMAND_BYTES,
    Args,
    bad_argument,
    check_text,
    integer,
    receiver,
    run_id,
    seconds,
    shown,
    signal_name,
    text,
)

MAX_VALUE_BYTES = 120 * 1024
LAUNCHES = ("per_node", "per_gpu")


def checked(args: Args) -> Dict[str, Any]:
    """The order with every field present and of its type; Refusal names the first that is not."""
    order = args.get("order")
    if not isinstance(order, dict):
        raise bad_argument("order", "must be an object, not {}".format(shown(order)))
    if order.get("format") != 1:
        raise bad_argument("format", "must be 1, not {}".format(shown(order.get("format"))))
    found: Dict[str, Any] = {"run": run_id(order)}
    for name in ("instance", "name", "team", "user_name", "master_addr", "access"):
        found[name] = text(order, name, "process" if name == "access" else None)
    for name in ("job", "attempt", "node_rank", "first_rank", "ranks", "disk_gib", "master_port"):
        found[name] = integer(order, name, 0)
    for name in ("nnodes", "world_size", "log_max_mib"):
        found[name] = integer(order, name, 1)
    for name in ("workdir", "account"):
        found[name] = optional_text(order, name)
    found["command"] = command(order)
    found["env"] = environment(order)
    found["cards"] = card_list(order)
    found["device_ids"] = one_of(order, "device_ids", ("uuid", "index"))
    found["launch"] = one_of(order, "launch", LAUNCHES)
    found["grace_s"] = seconds(order, "grace_s")
    found["signal_to"] = receiver(order, "signal_to")
    found["restarts"] = integer(order, "restarts", 0, 0)
    found["checkpoint"] = checkpoint(order)
    found["signal"] = signal_name(order)
    limit = order.get("time_limit_s")
    found["time_limit_s"] = None if limit is None else seconds(order, "time_limit_s")
    return found


def optional_text(order: Args, name: str) -> Optional[str]:
    return None if order.get(name) is None else text(order, name)


def one_of(order: Args, name: str, choices: Any) -> str:
    value = text(order, name, choices[0])
    if value not in choices:
        raise bad_argument(name, "must be {}, not {}".format(" or ".join(choices), shown(value)))
    return value


def command(order: Args) -> str:
    value = text(order, "command")
    size = len(value.encode("utf-8"))
    if not value.strip() or size > MAX_COMMAND_BYTES:
        raise bad_argument(
            "command", "has {} bytes; 1 to {} are possible".format(size, MAX_COMMAND_BYTES)
        )
    return value


def environment(order: Args) -> Dict[str, str]:
    value = order.get("env", {})
    if not isinstance(value, dict):
        raise bad_argument("env", "must be an object, not {}".format(shown(value)))
    for name, content in value.items():
        if not name or "=" in name or "\0" in name or not isinstance(content, str):
            raise bad_argument("env", "cannot hold {}".format(shown(name)))
        check_text("env", name)
        check_text("env " + name, content)
        if len(content.encode("utf-8")) > MAX_VALUE_BYTES:
            raise bad_argument("env " + name, "is over {} bytes".format(MAX_VALUE_BYTES))
    return value


def card_list(order: Args) -> List[str]:
    value = order.get("cards")
    if not isinstance(value, list) or not all(isinstance(uuid, str) for uuid in value):
        raise bad_argument("cards", "must be a list of UUIDs, not {}".format(shown(value)))
    if len(set(value)) != len(value):
        raise bad_argument("cards", "names a card twice")
    return value


def checkpoint(order: Args) -> Optional[Dict[str, Any]]:
    """Where the run before this one had saved last: {"step", "path"}, or None."""
    value = order.get("checkpoint")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise bad_argument("checkpoint", "must be an object, not {}".format(shown(value)))
    return {"step": integer(value, "step", 0), "path": text(value, "path")}
