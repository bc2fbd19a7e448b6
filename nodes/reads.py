"""Reading a log for a person: a task on the workers that hold the connections, briefly awaited.

At most four readers of this process wait at once, each two seconds; the answer of one place in
one log is shared for a second. A reader that finds no room, or no answer in time, is told to
come again. This is the one place outside the tasks that waits for a Celery result.
"""

import base64
from threading import BoundedSemaphore
from typing import Any

from celery import current_app
from celery.exceptions import TimeoutError as NoAnswerYet
from django.core.cache import cache
from kombu.exceptions import OperationalError

from .errors import NodeError, NodeRefused, NodeUnreachable
from .models import Node

WAIT_S = 2
READ_MAX_BYTES = 65536
_ROOM = BoundedSemaphore(4)


class TooManyReaders(NodeError):
    """No room to wait now; the same read may go through in a second."""

    code = "too_many_readers"


def tail(
    node: Node, run_id: str, *, rank: int, offset: int, limit: int, fresh: bool = False
) -> tuple[bytes, int, int]:
    """Return (bytes, their offset, size now) of a rank's log. Cost: one task, <= 2 s.

    ``fresh`` asks past the shared answer: who knows that the run is gone wants its last bytes.

    Raises TooManyReaders, NodeUnreachable (no answer in time) or NodeRefused.
    """
    key = f"tail:{run_id}:{rank}:{offset}:{limit}"
    kept = None if fresh else cache.get(key)
    if kept is None:
        kept = _ask(node, run_id, rank, offset, limit)
        cache.set(key, kept, timeout=1)
    if "error" in kept:
        raise _error(kept["error"])
    return base64.b64decode(kept["data"]), int(kept["offset"]), int(kept["size"])


def _ask(node: Node, run_id: str, rank: int, offset: int, limit: int) -> dict[str, Any]:
    if not _ROOM.acquire(blocking=False):
        raise TooManyReaders("Four logs are being read already.", next_step="Try again in 1 s.")
    try:
        asked = current_app.send_task(
            "nodes.read_tail",
            args=[node.pk, run_id, rank, offset, min(limit, READ_MAX_BYTES)],
            queue="nodes-reads",
            expires=5,
            retry=False,
        )
        answer: dict[str, Any] = asked.get(timeout=WAIT_S)
        return answer
    except (NoAnswerYet, OperationalError) as slow:
        raise NodeUnreachable(
            f"Node {node.name} did not answer within {WAIT_S} s.",
            next_step="The log is kept there; try again in a moment.",
        ) from slow
    finally:
        _ROOM.release()


def _error(error: dict[str, str]) -> NodeError:
    if error["kind"] == "unreachable":
        return NodeUnreachable(error["cause"], next_step=error["next_step"])
    return NodeRefused(
        error["cause"], next_step=error["next_step"], code=error["code"], kind=error["kind"]
    )
