"""Waiting for a job: its log as it grows, byte for byte, and its end.

A log is asked for from the byte after the last one that came, so a lost connection neither loses
nor repeats any. Pauses grow from 0.2 to 2 s while nothing comes.
"""

import time
from collections.abc import Iterator

from .client import Client, Json, LogPiece

PAUSE_S, PAUSE_MAX_S = 0.2, 2.0
PATIENCE_S = 300.0
EXIT_CODES = {
    "COMPLETED": 0,
    "FAILED": 1,
    "CANCELLED": 4,
    "TIMEOUT": 5,
    "OUT_OF_MEMORY": 6,
    "NODE_FAIL": 7,
}


def read(
    client: Client, job_id: int, *, attempt: int | None, rank: int, offset: int
) -> Iterator[LogPiece]:
    """What is in the log now, from ``offset`` on."""
    while True:
        piece = client.log(job_id, attempt=attempt, rank=rank, offset=offset)
        if piece.data:
            yield piece
        if not piece.data or piece.ended:
            return
        attempt, offset = piece.attempt, piece.next_offset


def follow(
    client: Client, job_id: int, *, attempt: int | None = None, rank: int = 0, offset: int = 0
) -> Iterator[LogPiece]:
    """The log until its attempt has ended; without ``attempt``, of all attempts to come."""
    client.connection.patience_s = PATIENCE_S
    chosen, pause_s = attempt, PAUSE_S
    while True:
        piece = client.log(job_id, attempt=chosen, rank=rank, offset=offset)
        if piece.attempt is not None:
            chosen, offset = piece.attempt, piece.next_offset
        if piece.data:
            yield piece
            pause_s = PAUSE_S
        if piece.ended:
            after = None if attempt or not chosen else _after(client, job_id, chosen)
            if after is None:
                return
            if after != chosen:
                chosen, offset = after, 0
                continue
        if not piece.data:
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, PAUSE_MAX_S)


def _after(client: Client, job_id: int, chosen: int) -> int | None:
    """Where to read on: the next attempt, the same one while another may come, None at the end."""
    job = client.job(job_id)
    if (job["attempt"] or 0) > chosen:
        return chosen + 1
    return None if job["done"] else chosen


def wait(client: Client, job_id: int) -> Json:
    """The job once it has ended."""
    client.connection.patience_s = PATIENCE_S
    pause_s = PAUSE_S
    while True:
        job = client.job(job_id)
        if job["done"]:
            return job
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, PAUSE_MAX_S)


def exit_code(job: Json) -> int:
    """The command's own exit code for how a job ended."""
    return EXIT_CODES.get(job["state"], 1)
