"""Jobs go in while processes are killed -9; afterwards nothing may be lost, doubled or left.

Each round submits some jobs through the API (with keys, and patience when nobody answers),
cancels some, and kills one process of the portal at a seeded moment. The supervisor starts it
again. When all rounds are over and all jobs have ended, the file that the jobs wrote is counted.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from portal.client import Client, ClientError, Refused

from . import figures, remains, tally
from .crowd import ROUND_S, Ask, Round
from .stage import Stage, StageError

NAMES = ("web", "control", "nodes", "beat", "postgres", "valkey")
MOST = {"lost": 0.0, "doubled": 0.0, "leaked": 0.0}
PERSON, TEAM = "alice", "vision"
PATIENCE_S = 120.0
ENDING_LIMIT_S = 180.0
SETTLING_LIMIT_S = 90.0
SENDERS = 12
_JOBS = "SELECT id, name, state, gpus FROM scheduling_job ORDER BY id"

Say = Callable[[str], None]


@dataclass(slots=True)
class Play:
    """One run of the fault test: who was asked for, and which of them was asked to leave."""

    stage: Stage
    record: Path
    say: Say
    asks: dict[str, Ask] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    kills: int = 0
    _mine: threading.local = field(default_factory=threading.local)

    @property
    def client(self) -> Client:
        """This thread's own."""
        if not hasattr(self._mine, "client"):
            self._mine.client = self.stage.client(PERSON, patience_s=PATIENCE_S)
        client: Client = self._mine.client
        return client


def run(stage: Stage, plan: Sequence[Round], *, seed: int, say: Say) -> dict[str, Any]:
    """Play the rounds and count. About 4 s a round and a minute at the end."""
    play = Play(stage, stage.folder / "record", say)
    began = time.monotonic()
    with ThreadPoolExecutor(SENDERS) as senders:
        for number, round_ in enumerate(plan, 1):
            _play(play, round_, senders, f"round {number} of {len(plan)}")
    _await_ends(play)
    left = _await_settled(play)
    asked = _asked(play)
    lines = tally.read(play.record.read_text())
    found = {
        "lost": tally.lost(asked, lines) + _unknown(play, asked),
        "doubled": tally.doubled(asked, lines) + tally.overlapping(lines),
        "leaked": left,
    }
    for kind, sentences in found.items():
        for sentence in sentences:
            say(f"{kind}: {sentence}")
    results = {
        "rounds": len(plan),
        "seed": seed,
        "kills": play.kills,
        "jobs": len(asked),
        "runs": len({line.run for line in lines}),
        "took_s": round(time.monotonic() - began, 1),
        **{kind: len(sentences) for kind, sentences in found.items()},
        "what": {kind: sentences[:20] for kind, sentences in found.items() if sentences},
    }
    return figures.answer("faults", results, most=MOST)


def _play(play: Play, round_: Round, senders: ThreadPoolExecutor, title: str) -> None:
    """One round: every act at its moment; whoever finds nobody there goes on asking."""
    began = time.monotonic()
    acts: list[tuple[float, Callable[[], object]]] = [
        (round_.kill_at_s, lambda: _kill(play, round_.kill))
    ]
    for ask in round_.asks:
        play.asks[ask.label] = ask
        acts.append((ask.at_s, _submission(play, ask, senders, began)))
    for at_s, act in sorted(acts, key=lambda pair: pair[0]):
        time.sleep(max(0.0, began + at_s - time.monotonic()))
        act()
    play.say(f"{title}: {len(round_.asks)} jobs, {round_.kill} killed at {round_.kill_at_s} s")
    time.sleep(max(0.0, began + ROUND_S - time.monotonic()))


def _submission(
    play: Play, ask: Ask, senders: ThreadPoolExecutor, began: float
) -> Callable[[], "Future[None]"]:
    return lambda: senders.submit(_submit, play, ask, began)


def _submit(play: Play, ask: Ask, began: float) -> None:
    """Submit until the portal has said yes, and cancel when its time has come."""
    order = ask.order(TEAM, str(play.record))
    try:
        job_id = play.client.submit(order, key=f"bench-{ask.label}")["id"]
    except ClientError as refused:
        play.say(f"{ask.label} was not taken: {refused}")
        return
    if ask.cancel_at_s is None:
        return
    time.sleep(max(0.0, began + ask.cancel_at_s - time.monotonic()))
    play.cancelled.add(ask.label)
    try:
        play.client.cancel(job_id, reason="bench")
    except Refused:
        pass  # it had ended
    except ClientError as silent:
        play.say(f"{ask.label} was not cancelled: {silent}")


def _kill(play: Play, name: str) -> None:
    """Kills too close together find nobody there: ``kills`` counts those that met somebody."""
    pid = play.stage.pid_of(name)
    try:
        if pid is None:
            raise ProcessLookupError
        os.kill(pid, signal.SIGKILL)
        play.kills += 1
    except ProcessLookupError:
        play.say(f"{name} was dead already")


def _await_ends(play: Play) -> None:
    """Until all jobs have ended, or three minutes have gone by: what has not ended is lost."""
    until = time.monotonic() + ENDING_LIMIT_S
    waiting = -1
    while time.monotonic() < until:
        rows = _rows(play)
        now = sum(state not in ("COMPLETED", "FAILED", "CANCELLED") for _, _, state, _ in rows)
        if now == 0 and len(rows) >= len(play.asks):
            return
        if now != waiting:
            waiting = now
            play.say(f"{waiting} of {len(play.asks)} jobs have not ended")
        time.sleep(1.0)


def _await_settled(play: Play) -> list[str]:
    """What still claims something, once nothing has changed for the better for long enough."""
    until = time.monotonic() + SETTLING_LIMIT_S
    while True:
        left = _left(play)
        if not left or time.monotonic() > until:
            return left
        time.sleep(1.0)


def _left(play: Play) -> list[str]:
    with play.stage.database() as database:
        return remains.claims(database) + remains.processes(play.stage.folder)


def _rows(play: Play) -> list[tuple[int, str, str, int]]:
    try:
        with play.stage.database() as database:
            return database.execute(_JOBS).fetchall()
    except psycopg.OperationalError:
        return []  # it was killed and is starting


def _asked(play: Play) -> list[tally.Asked]:
    """Every job of the database, with what was asked for under its name."""
    rows = _rows(play)
    if not rows:
        raise StageError("The database of the measured portal does not answer any more.")
    return [
        tally.Asked(
            job=job_id,
            label=label,
            ranks=gpus,
            code=play.asks[label].code,
            cancelled=label in play.cancelled,
            state=state,
        )
        for job_id, label, state, gpus in rows
    ]


def _unknown(play: Play, asked: Sequence[tally.Asked]) -> list[str]:
    there = {one.label for one in asked}
    return [f"{label} was asked for and is no job" for label in play.asks if label not in there]
